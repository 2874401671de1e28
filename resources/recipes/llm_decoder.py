"""Your decoder, one token at a time: replace what is between the lines.

A Llama-type decoder of ExecuTorch's own example code (executorch.examples.models.llama), with a
cache of keys and values in buffers. Its weights lie in the .safetensors beside the project, its
texts in the .txt files; every byte is a token until the project names a tokenizer.
"""

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs

# --- replace: the parameters of your model, as in its params.json ---
CONTEXT = 64
PARAMETERS = {
    "dim": 64,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "vocab_size": 256,
    "hidden_dim": 192,
}
# --------------------------------------------------------------------


class Decoder(torch.nn.Module):
    """Gives for a token and its position the logits of the token that follows."""

    def __init__(self):
        super().__init__()
        sizes = {**PARAMETERS, "max_seq_len": CONTEXT, "max_context_len": CONTEXT}
        self.transformer = construct_transformer(ModelArgs(**sizes, use_kv_cache=True))

    def forward(self, token, position):
        """Return the logits [1, vocabulary] for one token [1, 1] at a position [1]."""
        return self.transformer(token, {"input_pos": position})


def model():
    """Return the decoder in eval, and a token at the first position as example input."""
    torch.manual_seed(0)
    return Decoder().eval(), (
        torch.zeros(1, 1, dtype=torch.int32),
        torch.zeros(1, dtype=torch.int32),
    )
