// Package executorch writes ExecuTorch programs (.pte) from lowered graphs.
//
// Regions of a graph that XNNPACK computes are delegates: a FlatBuffer of
// backends/xnnpack/serialization/schema.fbs (identifier XN01), whose weights are named
// segments of the program, which methods share. XNNPACK copies weights when it is
// opened, and nothing else, so other constants are arguments of the call. Within a
// region images are N×H×W×C, and convolutions with narrow weights are products.
//
// The remaining nodes call the portable kernels of ExecuTorch's stock runtime by
// their registered names. Weights narrower than float32 are constants of that width,
// which instructions before the layer widen. The format is the FlatBuffer of
// ExecuTorch's schema/program.fbs (version 0, identifier ET12) with an extended
// header, a segment of constants, and those of the delegates and their weights.
package executorch
