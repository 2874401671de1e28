"""Your decoder, one token at a time: replace what is between the lines.

A Llama-type decoder of ExecuTorch's own example code (executorch.examples.models.llama), with a
cache of keys and values in buffers. Its weights lie in the .safetensors beside the project, its
texts in the .txt files; every byte is a token until the project names a tokenizer.
"""

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.examples.models.llama.source_transformation.custom_kv_cache import (
    enable_static_kv_cache_calibration,
    finalize_static_kv_cache_calibration,
    replace_kv_cache_with_static_quantized_kv_cache,
)

# --- replace: the parameters of your model, as in its params.json ---
CONTEXT = 64
PARAMETERS = {"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 256, "hidden_dim": 192}
# static_quantize_kv_cache of export_llm: the caches are int8, with one scale for each position of a
# head's vector. The scales are among the weights; measure_caches finds them.
INT8_CACHES = False
# --------------------------------------------------------------------


class Decoder(torch.nn.Module):
    """Gives for a token and its position the logits of the token that follows."""

    def __init__(self):
        super().__init__()
        sizes = {**PARAMETERS, "max_seq_len": CONTEXT, "max_context_len": CONTEXT}
        self.transformer = construct_transformer(ModelArgs(**sizes, use_kv_cache=True))
        if INT8_CACHES:
            replace_kv_cache_with_static_quantized_kv_cache(
                self.transformer, use_custom_update_cache_op=False
            )
        self.register_load_state_dict_pre_hook(_with_empty_caches)

    def forward(self, token, position):
        """Return the logits [1, vocabulary] for one token [1, 1] at a position [1]."""
        return self.transformer(token, {"input_pos": position})


def _with_empty_caches(module, state, *_):
    """Take no caches from a file, which may be of another form or length: they begin empty."""
    mine = module.state_dict()
    for name in [name for name in {**state, **mine} if ".kv_cache." in name]:
        if name not in mine:
            del state[name]
        elif not name.endswith("_cache_scales"):
            state[name] = mine[name]


def measure_caches(decoder, tokens):
    """Set the scales of int8 caches to the largest keys and values of a text of token ids."""
    caches = enable_static_kv_cache_calibration(decoder)
    with torch.no_grad():
        for place, token in enumerate(tokens):
            numbers = torch.tensor([[token]]), torch.tensor([place % CONTEXT])
            decoder(*numbers)
    finalize_static_kv_cache_calibration(decoder)
    return caches


def model():
    """Return the decoder in eval, and a token at the first position as example input."""
    torch.manual_seed(0)
    return Decoder().eval(), (torch.zeros(1, 1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))
