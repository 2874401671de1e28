"""Your decoder with its caches as inputs and outputs: replace what is between the lines.

A Llama-type decoder of ExecuTorch's own example code with its static attention: caches come in,
the newest keys and values go to their end, and the caches go out for the next token. Its weights
lie in the .safetensors beside the project, its texts in the .txt files; every byte is a token where
the project names no tokenizer.
"""

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.examples.models.llama.static_attention import (
    StaticKVCache,
    transform_attention_mha_to_static_attention,
)

# --- replace: the parameters of your model, as in its params.json ---
CONTEXT = 64
PARAMETERS = {"dim": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 256, "hidden_dim": 192}
# How many tokens a call reads: 1 to write an answer, more for a second program that reads prompts.
TOKENS = 1
# --------------------------------------------------------------------
# What keeps places that no token has reached out of the attention: e to its power is nothing.
MASKED = -100.0


class Decoder(torch.nn.Module):
    """Gives for tokens, their positions and caches the logits of what follows, and the new caches.

    Caches of keys for every layer come first, then those of values.
    """

    def __init__(self):
        super().__init__()
        sizes = {**PARAMETERS, "max_seq_len": CONTEXT, "max_context_len": CONTEXT}
        made = construct_transformer(ModelArgs(**sizes))
        cos, sin = made.rope.freqs_cos.clone(), made.rope.freqs_sin.clone()
        self.transformer = transform_attention_mha_to_static_attention(made, split_mha=False)
        places = torch.arange(CONTEXT)
        reached = places >= CONTEXT - 1 - places[:, None]
        tables = {"cos": cos, "sin": sin, "masks": torch.where(reached, 0.0, MASKED)[:, None]}
        if TOKENS > 1:
            # Tokens of one call do not see later ones.
            tables["later"] = torch.full((1, TOKENS, TOKENS), MASKED).triu(1)
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)
        self.register_load_state_dict_pre_hook(_as_static)

    def forward(self, token, position, *caches):
        """Return the logits [1, vocabulary] and the caches after tokens [1, TOKENS]."""
        names = [StaticKVCache.calculate_cache_key(i, 0) for i in range(len(caches) // 2)]
        keys = dict(zip(names, caches[: len(names)], strict=True))
        values = dict(zip(names, caches[len(names) :], strict=True))
        logits, updates = self.transformer(
            token,
            {
                "masks": {CONTEXT - 1: self._mask(position)},
                "freqs_cos_override": self.cos[position],
                "freqs_sin_override": self.sin[position],
                "in_cache_state": (keys, values),
            },
        )
        pairs = zip((keys, values), updates["out_cache_state"], strict=True)
        return logits, *(
            torch.cat([cache[:, :, TOKENS:], newest[name]], 2)
            for before, newest in pairs
            for name, cache in before.items()
        )

    def _mask(self, position):
        if TOKENS == 1:
            return self.masks[position]
        cached = self.masks[position[:1], :, : CONTEXT - 1].expand(1, TOKENS, CONTEXT - 1)
        return torch.cat([cached, self.later], 2)


def _as_static(module, state, *_):
    """Take the weights of the decoder that keeps its caches in buffers."""
    del module
    for name in list(state):
        value, mine = state.pop(name), name
        for part in "qkv":
            mine = mine.replace(f".attention.w{part}.", f".attention.w{part}s.0.")
        if ".kv_cache." not in name:
            state[mine] = value


def model():
    """Return the decoder in eval; tokens at the first positions and empty caches as inputs."""
    torch.manual_seed(0)
    width = PARAMETERS["dim"] // PARAMETERS["n_heads"]
    empty = torch.zeros(1, PARAMETERS["n_kv_heads"], CONTEXT - 1, width)
    caches = [empty.clone() for _ in range(2 * PARAMETERS["n_layers"])]
    numbers = torch.zeros(1, TOKENS, dtype=torch.int32), torch.arange(TOKENS, dtype=torch.int32)
    return Decoder().eval(), (*numbers, *caches)
