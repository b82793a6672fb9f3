"""Models of transformers itself, with random weights and small configurations: what each family needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import transformers

from tests.frontends.torch_modules.rows import Spec, f32, i64

B, T = None, None
WORDS, SIZE, SAMPLES = 50, 32, 400


@dataclass(frozen=True)
class Pretrained:
    """A model of transformers by its classes, with its configuration.

    takes: its arguments by name, with what each is. result: the one of its results that counts. options: further
    arguments, which are no tensors. part: the method that gives the part which is meant, where it is not the whole.
    """

    name: str
    configuration: Mapping[str, Any]
    takes: Mapping[str, Spec]
    result: str = "last_hidden_state"
    options: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""

    def make(self) -> torch.nn.Module:
        """The module, awake: no weights that are constant or nearly 0, so that another input changes its result."""
        torch.manual_seed(0)
        kind = getattr(transformers, self.name)
        model = kind(kind.config_class(**self.configuration))
        module = OneResult(getattr(model, self.part)() if self.part else model, self).eval()
        generator = torch.Generator().manual_seed(1)
        for weights in module.parameters():
            deviation = float(weights.detach().std(unbiased=False))
            if deviation < 1e-8:
                weights.data += 0.3 * torch.randn(weights.shape, generator=generator)
            elif weights.dim() > 1:
                weights.data *= 0.25 / deviation
        return module


class OneResult(torch.nn.Module):
    """One result of a model, whose arguments come in order."""

    def __init__(self, model: Any, of: Pretrained) -> None:
        super().__init__()
        self.model, self.names, self.result, self.options = model, tuple(of.takes), of.result, dict(of.options)

    def forward(self, *given: Any) -> Any:
        """The result for tensors in the order of `takes`."""
        return getattr(self.model(**dict(zip(self.names, given, strict=True)), **self.options), self.result)


SHORT = {"vocab_size": WORDS, "max_position_embeddings": 40, "pad_token_id": 0}
LAYERS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SMALL = {**SHORT, **LAYERS}
ONE_KEY = {**SMALL, "num_key_value_heads": 1, "bos_token_id": 1, "eos_token_id": 2}
PATCHES = {**LAYERS, "image_size": SIZE, "patch_size": 8}
STAGES = {"image_size": SIZE, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
WINDOWS = {"image_size": SIZE, "patch_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2], "window_size": 4}
SOUND = {
    **LAYERS,
    **{"conv_dim": (8, 8, 8), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3)},
    **{"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2},
}
T5 = {"vocab_size": WORDS, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
WHISPER = {
    **{"vocab_size": WORDS, "d_model": 16, "max_source_positions": 20, "num_mel_bins": 8},
    **{"encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 32},
    **{"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 32},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
}
TEXT = {"input_ids": i64(B, T), "attention_mask": i64(B, T)}
TWO_TEXTS = {**TEXT, "decoder_input_ids": i64(B, 5)}
IMAGE = {"pixel_values": f32(B, 3, SIZE, SIZE)}
WAVE = {"input_values": f32(B, T)}


def language(name: str, configuration: Mapping[str, Any]) -> Callable[[], Pretrained]:
    """A model that gives scores for the next word, without what it would keep for it."""
    return lambda: Pretrained(name, configuration, TEXT, "logits", {"use_cache": False})


def encoder(name: str, configuration: Mapping[str, Any], result: str = "last_hidden_state") -> Callable[[], Pretrained]:
    """A model of words and of which of them count."""
    return lambda: Pretrained(name, configuration, TEXT, result)


def vision(name: str, configuration: Mapping[str, Any]) -> Callable[[], Pretrained]:
    """A model of images."""
    return lambda: Pretrained(name, configuration, IMAGE)


MODELS: dict[str, Callable[[], Pretrained]] = {
    "bert": encoder("BertModel", SMALL),
    "bert-classes": encoder("BertForSequenceClassification", SMALL, "logits"),
    "distilbert": encoder("DistilBertModel", {**SHORT, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}),
    "roberta": encoder("RobertaModel", SMALL),
    "albert": encoder("AlbertModel", {**SMALL, "embedding_size": 8}),
    "electra": encoder("ElectraModel", {**SMALL, "embedding_size": 8}),
    "mobilebert": encoder(
        "MobileBertModel", {**SMALL, "embedding_size": 8, "true_hidden_size": 16, "intra_bottleneck_size": 16}
    ),
    "deberta": encoder(
        "DebertaV2Model", {**SMALL, "relative_attention": True, "position_buckets": 8, "pos_att_type": ["c2p", "p2c"]}
    ),
    "gpt2": language(
        "GPT2LMHeadModel", {"vocab_size": WORDS, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}
    ),
    "opt": language("OPTForCausalLM", {**SMALL, "ffn_dim": 32, "word_embed_proj_dim": 16}),
    "llama": language("LlamaForCausalLM", ONE_KEY),
    "mistral": language("MistralForCausalLM", {**ONE_KEY, "sliding_window": 4}),
    "mixtral": language("MixtralForCausalLM", {**ONE_KEY, "num_local_experts": 3}),
    "qwen2": language("Qwen2ForCausalLM", ONE_KEY),
    "gemma": language("GemmaForCausalLM", {**ONE_KEY, "head_dim": 8}),
    "t5-encoder": encoder("T5EncoderModel", T5),
    "t5": lambda: Pretrained("T5Model", {**T5, "decoder_start_token_id": 0}, TWO_TEXTS, options={"use_cache": False}),
    "clip-text": encoder("CLIPTextModel", {**SMALL, "bos_token_id": 1, "eos_token_id": 3}),
    "clip-vision": vision("CLIPVisionModel", PATCHES),
    "vit": vision("ViTModel", PATCHES),
    "deit": vision("DeiTModel", PATCHES),
    "swin": vision("SwinModel", WINDOWS),
    "convnext": vision("ConvNextModel", STAGES),
    "segformer": vision("SegformerModel", {**STAGES, "num_attention_heads": [1, 1, 2, 2], "decoder_hidden_size": 16}),
    "wav2vec2": lambda: Pretrained("Wav2Vec2Model", SOUND, WAVE),
    "sew": lambda: Pretrained("SEWModel", {**SOUND, "squeeze_factor": 2}, WAVE),
    "wav2vec2-conformer": lambda: Pretrained(
        "Wav2Vec2ConformerModel",
        {**SOUND, "position_embeddings_type": "relative", "max_source_positions": 100},
        WAVE,
    ),
    "whisper-encoder": lambda: Pretrained(
        "WhisperModel", WHISPER, {"input_features": f32(B, 8, 40)}, part="get_encoder"
    ),
}


def drawn(model: Pretrained, batch: int, length: int, seed: int) -> list[np.ndarray]:
    """Arguments: words, of which the last two of the first row do not count; sounds of so many times the length."""
    rng = np.random.default_rng(seed)
    found = []
    for name, spec in model.takes.items():
        axes = [batch, SAMPLES // 9 * length if name == "input_values" else length]
        shape = [axes[i] if d is None else d for i, d in enumerate(spec.shape)]
        if name == "attention_mask":
            found.append(np.ones(shape, np.int64))
            found[-1][0, -2:] = 0
        elif spec.dtype == np.int64:
            found.append(rng.integers(4, WORDS, shape))
        else:
            found.append(rng.normal(size=shape).astype(np.float32))
    return found
