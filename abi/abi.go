// Package abi is the MM-ABI: the vocabulary in which encoders, projectors,
// decoders, skills and a core LLM say what they take and give, so that parts
// trained apart can be joined and the joint be checked before anything runs.
//
// The contract, in the order a value meets it:
//
//   - A module has a [ModuleType], a [Modality], a SemVer version and ports. A
//     [Port] is a named tensor with a [Shape] and a [DType], or, for skills, a
//     named value with a scalar type. Dimensions are fixed or named ("T_enc",
//     "d_model"); a name binds to one size per build ([Binding]), and d_model
//     means the same number everywhere.
//   - An encoder turns pixels or samples into tokens [T_enc, D_enc]; its
//     projector turns those into at most T_cap vectors of the core's width,
//     [T_cap, d_model]. [Connect] says why two ports do not fit.
//   - The core's [TokenContract] (vocab_size, special tokens, max_seq, d_model)
//     holds for the whole build: text and projected vectors share one sequence
//     of max_seq places. [DefaultCaps] bounds what one modality may take of it.
//   - The core asks for a tool by a JSON block between <tool_call> and
//     </tool_call> ([ToolCall]); the answer comes back as one line of JSON.
//   - Modules and builds are named by references of one grammar ([Ref]) and
//     travel as OCI artifacts under the media types and annotation keys of
//     media.go; [TagMeaning] says what a tag means on one.
//
// Two versions exist. [V1_0] is the first published contract; [V1_1] adds what
// real models turned out to need (preprocess and state blocks) and spells
// t_cap in lower case. This package and the schemas carry a compatibility
// promise: what validates under a version keeps validating.
package abi

import "slices"

// Version names a version of the contract, as a manifest's abi key spells it.
type Version string

// The known versions.
const (
	V1_0 Version = "mm-abi-1.0"
	V1_1 Version = "mm-abi-1.1"
)

// Versions lists the known versions, oldest first.
func Versions() []Version { return []Version{V1_0, V1_1} }

// Known reports whether v is a version this build of mm can check.
func (v Version) Known() bool { return slices.Contains(Versions(), v) }

// ModuleType says what a module does in a build.
type ModuleType string

// The module types of MM-ABI 1.0.
const (
	Encoder   ModuleType = "encoder"    // raw input to modality tokens
	Projector ModuleType = "projector"  // modality tokens to vectors of d_model
	Decoder   ModuleType = "decoder"    // vectors of d_model to an output modality
	Skill     ModuleType = "skill"      // a tool the core may call
	Core      ModuleType = "core"       // the causal language model
	DraftCore ModuleType = "draft-core" // a smaller core for speculative decoding
	Router    ModuleType = "router"     // finds tool calls and dispatches them
	Sandbox   ModuleType = "sandbox"    // the limits skills run under
	Adapter   ModuleType = "adapter"    // LoRA or DoRA weights for a core
)

// ModuleTypes lists every module type in the order a build names them.
func ModuleTypes() []ModuleType {
	return []ModuleType{Core, DraftCore, Adapter, Encoder, Projector, Decoder, Skill, Router, Sandbox}
}

// Modality is a kind of input or output.
type Modality string

// The modalities of MM-ABI 1.0.
const (
	Text  Modality = "text"
	Image Modality = "image"
	Audio Modality = "audio"
	Video Modality = "video"
)

// DefaultCaps is how many vectors one input of a modality may occupy in the
// sequence unless the core's manifest says otherwise (MM-ABI 1.0 §2.2). The
// second result is false for text, which is bounded by max_seq alone.
func DefaultCaps(m Modality) (int, bool) {
	switch m {
	case Image:
		return 64, true
	case Audio:
		return 96, true
	case Video:
		return 128, true
	}
	return 0, false
}

// Markers returns the special tokens between which the projected vectors of a
// modality stand, such as <image> and </image>.
func (m Modality) Markers() (open, close string) {
	return "<" + string(m) + ">", "</" + string(m) + ">"
}
