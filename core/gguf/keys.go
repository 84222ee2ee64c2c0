package gguf

// Keys of every architecture.
const (
	KeyArchitecture        = "general.architecture"         // str, such as "llama"
	KeyAlignment           = "general.alignment"            // u32, default 32
	KeyName                = "general.name"                 // str
	KeyLicense             = "general.license"              // str, SPDX
	KeyFileType            = "general.file_type"            // u32, llama_ftype
	KeyQuantizationVersion = "general.quantization_version" // u32, 2
)

// Keys of the tokenizer.
const (
	KeyTokenizerModel   = "tokenizer.ggml.model"              // str: llama, gpt2, none …
	KeyTokenizerPre     = "tokenizer.ggml.pre"                // str: pre-tokenizer of a gpt2 model
	KeyTokens           = "tokenizer.ggml.tokens"             // arr[str]
	KeyScores           = "tokenizer.ggml.scores"             // arr[f32]
	KeyTokenTypes       = "tokenizer.ggml.token_type"         // arr[i32]
	KeyMerges           = "tokenizer.ggml.merges"             // arr[str], "left right"
	KeyBOS              = "tokenizer.ggml.bos_token_id"       // u32
	KeyEOS              = "tokenizer.ggml.eos_token_id"       // u32
	KeyEOT              = "tokenizer.ggml.eot_token_id"       // u32, end of turn
	KeyEOM              = "tokenizer.ggml.eom_token_id"       // u32, end of message
	KeyUnknown          = "tokenizer.ggml.unknown_token_id"   // u32
	KeySeparator        = "tokenizer.ggml.seperator_token_id" // u32, misspelled in the format
	KeyPadding          = "tokenizer.ggml.padding_token_id"   // u32
	KeyAddBOS           = "tokenizer.ggml.add_bos_token"      // bool
	KeyAddEOS           = "tokenizer.ggml.add_eos_token"      // bool
	KeyAddSpacePrefix   = "tokenizer.ggml.add_space_prefix"   // bool
	KeyRemoveExtraSpace = "tokenizer.ggml.remove_extra_whitespaces"
	KeyChatTemplate     = "tokenizer.chat_template"  // str, Jinja
	KeyChatTemplates    = "tokenizer.chat_templates" // array of str: names of further ones, each in a key
)

// ArchKey is a key with the architecture's name as prefix.
type ArchKey string

// In returns the full key: KeyContextLength.In("llama") is
// "llama.context_length".
func (k ArchKey) In(arch string) string { return arch + "." + string(k) }

// Keys of the architectures llama and qwen2. The first group is required; every
// other key has a default.
const (
	KeyContextLength   ArchKey = "context_length"                   // u32
	KeyEmbeddingLength ArchKey = "embedding_length"                 // u32, d_model
	KeyBlockCount      ArchKey = "block_count"                      // u32, layers
	KeyFeedForward     ArchKey = "feed_forward_length"              // u32 or one for each layer
	KeyHeadCount       ArchKey = "attention.head_count"             // u32 or one for each layer
	KeyRMSEpsilon      ArchKey = "attention.layer_norm_rms_epsilon" // f32

	KeyHeadCountKV   ArchKey = "attention.head_count_kv" // default head_count
	KeyKeyLength     ArchKey = "attention.key_length"    // u32, default d_model/heads
	KeyValueLength   ArchKey = "attention.value_length"  // u32, default d_model/heads
	KeyVocabSize     ArchKey = "vocab_size"              // u32, default len(tokens)
	KeyRopeDims      ArchKey = "rope.dimension_count"    // u32, default head size
	KeyRopeBase      ArchKey = "rope.freq_base"          // f32, default 10000
	KeyRopeScaling   ArchKey = "rope.scaling.type"       // str: none, linear, yarn, longrope
	KeyRopeFactor    ArchKey = "rope.scaling.factor"     // f32
	KeyRopeAttention ArchKey = "rope.scaling.attn_factor"
	KeyRopeOriginal  ArchKey = "rope.scaling.original_context_length" // u32
	KeyRopeExtFactor ArchKey = "rope.scaling.yarn_ext_factor"         // f32
	KeyRopeBetaFast  ArchKey = "rope.scaling.yarn_beta_fast"          // f32
	KeyRopeBetaSlow  ArchKey = "rope.scaling.yarn_beta_slow"          // f32
	KeyRopeFinetuned ArchKey = "rope.scaling.finetuned"               // bool
)

// MaxBlocks is llama.cpp's limit of block_count (LLAMA_MAX_LAYERS).
const MaxBlocks = 512
