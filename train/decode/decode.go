// Package decode trains decoders: networks that generate an image or a sound
// from the states of a frozen core for a prompt.
//
// [New], or [Resume], opens the core, the network and the source of a [Recipe]
// and builds the trainer of a [Decoding]. A [Source] yields samples of a prompt
// and its target. The core reads the prompt as in `mm run`; its last states are
// the input of the network, whose output is compared with the target:
//
//	prompt → core (frozen, sealed) → states [T_dec, d_model] → network → target
//
// by regression, or by rectified flow, which integrates from noise to the
// target in a few steps that an evaluation runs and train/net/onnxfile unrolls.
//
// An example is a pure function of the recipe's seed and its number, so a run
// is bit-identical on any number of threads and through interruptions.
package decode
