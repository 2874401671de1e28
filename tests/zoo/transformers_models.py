"""Encoders, decoders and detectors of ``transformers``, with a few narrow layers each."""

import torch
import transformers as hf
from torch import nn

_NARROW = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def _text(model):
    torch.manual_seed(0)
    return model().eval(), (torch.randint(2, 90, (1, 12)),)


def _image(model, size=32):
    torch.manual_seed(0)
    made = model().eval()
    for parameter in made.parameters():
        # Tokens and positions start as zeros, which no trained network has.
        if not parameter.any():
            torch.nn.init.normal_(parameter, 0, 0.1)
    return made, (torch.randn(1, 3, size, size),)


def bert():
    config = hf.BertConfig(vocab_size=100, max_position_embeddings=32, **_NARROW)
    return _text(lambda: hf.BertForSequenceClassification(config))


def distilbert():
    config = hf.DistilBertConfig(
        vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=32
    )
    return _text(lambda: hf.DistilBertForSequenceClassification(config))


def mobilebert():
    config = hf.MobileBertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        embedding_size=16,
        true_hidden_size=16,
        max_position_embeddings=32,
        intra_bottleneck_size=16,
    )
    return _text(lambda: hf.MobileBertForSequenceClassification(config))


def albert():
    config = hf.AlbertConfig(vocab_size=100, embedding_size=16, max_position_embeddings=32, **_NARROW)
    return _text(lambda: hf.AlbertForSequenceClassification(config))


def electra():
    config = hf.ElectraConfig(vocab_size=100, embedding_size=16, max_position_embeddings=32, **_NARROW)
    return _text(lambda: hf.ElectraForTokenClassification(config))


def roberta():
    config = hf.RobertaConfig(vocab_size=100, max_position_embeddings=32, **_NARROW)
    return _text(lambda: hf.RobertaForSequenceClassification(config))


def deberta():
    config = hf.DebertaV2Config(
        vocab_size=100,
        max_position_embeddings=32,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        **_NARROW,
    )
    return _text(lambda: hf.DebertaV2ForSequenceClassification(config))


def gpt2():
    config = hf.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False)
    return _text(lambda: hf.GPT2LMHeadModel(config))


def llama():
    config = hf.LlamaConfig(
        vocab_size=100, num_key_value_heads=2, max_position_embeddings=32, use_cache=False, **_NARROW
    )
    return _text(lambda: hf.LlamaForCausalLM(config))


def qwen3():
    config = hf.Qwen3Config(
        vocab_size=100,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=32,
        use_cache=False,
        **_NARROW,
    )
    return _text(lambda: hf.Qwen3ForCausalLM(config))


def gemma():
    config = hf.GemmaConfig(
        vocab_size=100,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=32,
        use_cache=False,
        **_NARROW,
    )
    return _text(lambda: hf.GemmaForCausalLM(config))


def opt():
    config = hf.OPTConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        max_position_embeddings=32,
        word_embed_proj_dim=32,
        use_cache=False,
    )
    return _text(lambda: hf.OPTForCausalLM(config))


def t5_encoder():
    config = hf.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return _text(lambda: hf.T5EncoderModel(config))


class _Translating(nn.Module):
    """An encoder and a decoder, called with tokens of both."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, decoded):
        return self.model(input_ids=tokens, decoder_input_ids=decoded, use_cache=False)[0]


def bart():
    config = hf.BartConfig(
        vocab_size=100,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=32,
    )
    model, tokens = _text(lambda: _Translating(hf.BartForConditionalGeneration(config)))
    return model, (*tokens, torch.randint(2, 90, (1, 6)))


def t5():
    config = hf.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_decoder_layers=1, num_heads=4
    )
    model, tokens = _text(lambda: _Translating(hf.T5ForConditionalGeneration(config)))
    return model, (*tokens, torch.randint(2, 90, (1, 6)))


def vit():
    config = hf.ViTConfig(image_size=32, patch_size=8, num_labels=10, **_NARROW)
    return _image(lambda: hf.ViTForImageClassification(config))


def deit():
    config = hf.DeiTConfig(image_size=32, patch_size=8, num_labels=10, **_NARROW)
    return _image(lambda: hf.DeiTForImageClassificationWithTeacher(config))


def dinov2():
    config = hf.Dinov2Config(image_size=32, patch_size=8, num_labels=10, mlp_ratio=2, **_NARROW)
    return _image(lambda: hf.Dinov2ForImageClassification(config))


def segformer():
    config = hf.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[4, 2],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        num_labels=4,
    )
    return _image(lambda: hf.SegformerForSemanticSegmentation(config))


def yolos():
    config = hf.YolosConfig(
        image_size=[32, 32], patch_size=8, num_detection_tokens=4, num_labels=3, **_NARROW
    )
    return _image(lambda: hf.YolosForObjectDetection(config))


def swin():
    config = hf.SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        num_labels=10,
    )
    return _image(lambda: hf.SwinForImageClassification(config))


def convnextv2():
    config = hf.ConvNextV2Config(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=10)
    return _image(lambda: hf.ConvNextV2ForImageClassification(config))


def mobilevit():
    config = hf.MobileViTConfig(
        image_size=32,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 40],
        num_attention_heads=4,
        num_labels=10,
    )
    return _image(lambda: hf.MobileViTForImageClassification(config), 64)


def clip_vision():
    config = hf.CLIPVisionConfig(image_size=32, patch_size=8, projection_dim=16, **_NARROW)
    return _image(lambda: hf.CLIPVisionModelWithProjection(config))


def whisper_encoder():
    config = hf.WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_layers=1,
        decoder_attention_heads=4,
        decoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=16,
        vocab_size=100,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    torch.manual_seed(0)
    return hf.WhisperModel(config).encoder.eval(), (torch.randn(1, 16, 32),)


def wav2vec2():
    config = hf.Wav2Vec2Config(
        vocab_size=20,
        conv_dim=(16, 16),
        conv_stride=(5, 4),
        conv_kernel=(10, 4),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        num_feat_extract_layers=2,
        **_NARROW,
    )
    torch.manual_seed(0)
    return hf.Wav2Vec2ForCTC(config).eval(), (torch.randn(1, 400),)


def spectrogram_transformer():
    config = hf.ASTConfig(
        patch_size=8,
        num_mel_bins=16,
        max_length=32,
        frequency_stride=8,
        time_stride=8,
        num_labels=10,
        **_NARROW,
    )
    model, _ = _image(lambda: hf.ASTForAudioClassification(config))
    return model, (torch.randn(1, 32, 16),)


class _Forecasting(nn.Module):
    """A forecast of a series by patches."""

    def __init__(self, config):
        super().__init__()
        self.model = hf.PatchTSTForPrediction(config)

    def forward(self, series):
        return self.model(past_values=series).prediction_outputs


def patch_tst():
    config = hf.PatchTSTConfig(
        num_input_channels=2,
        context_length=32,
        patch_length=8,
        patch_stride=8,
        d_model=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        prediction_length=8,
        scaling=None,
    )
    torch.manual_seed(0)
    return _Forecasting(config).eval(), (torch.randn(1, 32, 2),)
