// Package abi defines the MM-ABI: how encoders, projectors, decoders, skills and a core LLM
// declare their inputs and outputs, so that parts trained separately can be joined and the
// result checked before anything runs.
//
//   - A module has a [ModuleType], a [Modality], a SemVer version and ports. A
//     [Port] is a named tensor with a [Shape] and a [DType], or, for skills, a
//     named value with a scalar type. Dimensions are fixed or named ("T_enc",
//     "d_model"). A name binds to one size per build ([Binding]), and d_model
//     is the same number in every module.
//   - An encoder turns pixels or samples into tokens [T_enc, D_enc]. Its
//     projector turns those into at most T_cap vectors of the core's width,
//     [T_cap, d_model]. [Connect] explains why two ports do not fit.
//   - The core's [TokenContract] (vocab_size, special tokens, max_seq, d_model)
//     applies to the whole build: text and projected vectors share one sequence
//     of max_seq positions. [DefaultCaps] limits the share of a modality.
//   - The core requests a tool by a JSON block between <tool_call> and
//     </tool_call>; the answer is one line of JSON.
//   - Modules and builds are named by references ([Ref]) and are stored as OCI
//     artifacts with the media types and annotation keys of media.go.
//     [TagMeaning] interprets tags.
//
// There are three versions. [V1_0] is the first published contract. [V1_1] adds what real
// models need (preprocess and state blocks) and writes t_cap in lower case. [V1_2] adds
// tiles and the texts around vectors, for the vision models of others. This package and the schemas have a compatibility promise: what validates under a version keeps
// validating.
package abi

import "slices"

// Version is a version of the contract, as in a manifest's abi key.
type Version string

// The known versions.
const (
	V1_0 Version = "mm-abi-1.0"
	V1_1 Version = "mm-abi-1.1"
	V1_2 Version = "mm-abi-1.2"
)

// Versions lists the known versions, oldest first.
func Versions() []Version { return []Version{V1_0, V1_1, V1_2} }

// Known reports whether this build of mm can check version v.
func (v Version) Known() bool { return slices.Contains(Versions(), v) }

// ModuleType is the role of a module in a build.
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

// DefaultCaps returns the number of vectors that an input of a modality may occupy in the
// sequence, unless the core's manifest sets it (MM-ABI 1.0 §2.2). The second result is
// false for text, which only max_seq limits.
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

// Markers returns the special tokens around the projected vectors of a modality, such as
// <image> and </image>.
func (m Modality) Markers() (open, close string) {
	return "<" + string(m) + ">", "</" + string(m) + ">"
}
