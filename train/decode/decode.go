// Package decode trains decoders: networks that make a picture or a sound of the
// states in which a frozen core has read a prompt.
//
// The way of a run: a [Recipe] says everything; [New], or [Resume], opens the
// core, the network and the source that it names and builds the trainer of the
// [Decoding] that follows from them. A [Source] gives samples, a prompt and what
// it asks for. The core reads the prompt as `mm run` has it read; its last states
// go into the network, whose output is held against the target:
//
//	prompt → core (frozen, sealed) → states [T_dec, d_model] → network → target
//
// by regression, or by rectified flow, which begins at noise and goes to the
// target in a few steps that an evaluation walks and train/net/onnxfile unrolls.
//
// An example is a pure function of the recipe's seed and its number, so a run is
// the same bit for bit on any number of threads and through interruptions.
package decode
