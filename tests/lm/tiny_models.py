"""Tiny language models in folders: random ones, and ones that speak in answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from goalmeter.gridworld import State
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation import suite
from goalmeter.navigation.prompts import TEMPLATES

END, CHANNELS = "<|return|>", ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>")
OPEN, CLOSE, THOUGHT = '{"action": "', '"}', "Hm."
PROBABILITIES = {"LEFT": 0.1, "RIGHT": 0.4, "UP": 0.2, "DOWN": 0.3}
_PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
_IN_CHANNELS = (
    "{% if reasoning_effort is defined %}"
    "<|start|>system<|message|>Reasoning: {{ reasoning_effort }}<|end|>{% endif %}"
    "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
    "<|start|>assistant"
)


class Models:
    """A folder of tiny models: `models / NAME` is one, made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __truediv__(self, name: str) -> Path:
        if not (self.folder / name).exists():
            make = {"llama": llama, "gpt-oss": gpt_oss}.get(name.removeprefix("speaking-"))
            if make is None:
                mxfp4(self.folder / name)
            else:
                make(self.folder / name, speaks=name.startswith("speaking-"))
        return self.folder / name


def tokenizer(*, channels: bool = False) -> Any:
    """A byte-level tokenizer that knows our prompts' words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    tasks = suite("key-door", grids=3).tasks
    texts = [t.prompt(k.world, State(k.world.start)) for t in TEMPLATES.values() for k in tasks]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    )
    made.add_tokens([OPEN, CLOSE, THOUGHT, *ACTIONS, "analysis", "final"])
    out = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token="<pad>")
    if channels:
        out.add_special_tokens({"additional_special_tokens": list(CHANNELS[:-1])})
    out.chat_template = _IN_CHANNELS if channels else _PLAIN
    return out


def _config(words: Any, **options: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(words),
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "eos_token_id": words.eos_token_id,
        "pad_token_id": words.pad_token_id,
    } | options


def llama(folder: Path, *, speaks: bool) -> Path:
    """A Llama of two layers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tokenizer()
    torch.manual_seed(0)
    config = _config(words, hidden_size=32, initializer_range=0.3, bos_token_id=None)
    model = LlamaForCausalLM(LlamaConfig(**config))
    if speaks:
        answer = {"": {OPEN: 1.0}, OPEN: PROBABILITIES, CLOSE: {END: 1.0}}
        _speak(model, words, answer | {action: {CLOSE: 1.0} for action in ACTIONS})
    return saved(folder, model, words)


def gpt_oss(folder: Path, *, speaks: bool) -> Path:
    """A gpt-oss of two layers and four experts."""
    import torch
    from transformers import GptOssConfig, GptOssForCausalLM

    words = tokenizer(channels=True)
    torch.manual_seed(0)
    config = _config(
        words,
        hidden_size=64,
        head_dim=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=16,
        initializer_range=0.2,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    model = GptOssForCausalLM(GptOssConfig(**config))
    if speaks:
        # Reasoning, then the answer; sometimes one of the two is missing or comes twice.
        chain = {
            "": {"<|channel|>": 1.0},
            "<|channel|>": {"analysis": 0.5, "final": 0.5},
            "analysis": {"<|message|>": 1.0},
            "final": {"<|message|>": 1.0},
            "<|message|>": {THOUGHT: 0.5, OPEN: 0.5},
            THOUGHT: {"<|end|>": 1.0},
            "<|end|>": {"<|start|>": 1.0},
            "<|start|>": {"<|channel|>": 1.0},
            OPEN: PROBABILITIES,
            CLOSE: {END: 1.0},
        }
        _speak(model, words, chain | {action: {CLOSE: 1.0} for action in ACTIONS})
    return saved(folder, model, words)


def mxfp4(folder: Path) -> Path:
    """A gpt-oss whose experts are stored in MXFP4, as the published checkpoints are."""
    import torch
    from safetensors.torch import load_file, save_file

    gpt_oss(folder, speaks=False)
    weights = load_file(folder / "model.safetensors")
    draws = torch.Generator().manual_seed(0)
    for name in [n for n in weights if n.endswith(("gate_up_proj", "down_proj"))]:
        experts, rows, columns = weights.pop(name).transpose(1, 2).shape  # [experts, out, in]
        blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), generator=draws)
        scales = torch.randint(118, 122, (experts, rows, columns // 32), generator=draws)
        weights[f"{name}_blocks"] = blocks.to(torch.uint8)
        weights[f"{name}_scales"] = scales.to(torch.uint8)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"],
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _speak(model: Any, words: Any, after: dict[str, dict[str, float]]) -> None:
    """Make the next token depend on the last one: `after` gives probabilities by the last token.

    The layers are computed and their outputs are nothing; "" stands for all other tokens.
    """
    import torch

    size = model.config.hidden_size
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                weights.zero_()
        embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        embedding.zero_()
        head.fill_(0.0)
        embedding[:, 0] = 1.0
        for place, (last, following) in enumerate(after.items()):
            if last:
                embedding[words.convert_tokens_to_ids(last)] = torch.eye(size)[place]
            # The last norm scales a unit vector to the root of the number of its entries.
            head[:, place] = -40.0 / size**0.5
            for token, probability in following.items():
                at = words.convert_tokens_to_ids(token)
                head[at, place] = torch.tensor(probability).log() / size**0.5


def saved(folder: Path, model: Any, words: Any) -> Path:
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
