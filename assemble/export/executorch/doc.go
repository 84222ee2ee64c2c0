// Package executorch writes ExecuTorch programs (.pte) from lowered graphs.
//
// A program calls the portable kernels of ExecuTorch's stock runtime by their
// registered names. Weights narrower than float32 are constants of that width,
// which instructions before the layer widen. The format is the FlatBuffer of
// ExecuTorch's schema/program.fbs (version 0, identifier ET12) with an extended
// header and one segment of constants.
package executorch
