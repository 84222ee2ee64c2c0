// Package nn implements the layers of trained networks: linear layers,
// attention, feed-forward networks, norms and convolutions. Each layer has its
// backward pass directly after its forward pass; there is no autograd. Language
// models (train/llm), encoders, projectors and decoders (train/net) are built
// from these layers.
//
// Letters used throughout: T positions in a sequence, B sequences in a batch, C
// the width of the residual stream, H query heads, G key/value heads, D elements
// per head, F the hidden width of a feed-forward network. Shapes are written
// [rows, columns]; a matrix of activations has one row per position.
//
// [NewParams] allocates named tensors in one block of memory. Layers ([Linear],
// [Attention], [FFN], [Norm]) point into it. For a pass over B·T positions each
// layer gets an object with its activations ([Product], [AttentionPass],
// [FFNPass]). Forward and backward process one sequence at a time and touch no
// other, so threads share nothing. Gradients of vectors, such as gains, go into
// a buffer per sequence, see [Params.Spread]. After all sequences, [Gradients]
// computes the weight gradients of the matrices, each one product over all
// positions, split over threads by columns. The result is bit-identical for any
// number of threads.
//
// A convolution ([Conv], [Depthwise], [Transposed]) treats a sample as a matrix
// of pixels, row by row, and channels, [H·W, C]; time is an image of one row. It
// is a matrix product of windows: [Geometry] gathers the windows of a few dozen
// outputs at a time, so no more of them are ever stored, and the product runs on
// the panels of core/tensor. The weight gradient is a product over all outputs
// of all samples, split over threads by columns, whose windows are gathered
// column by column.
//
// Everything is generic in the element type: float32 runs on the assembly
// kernels of core/tensor, float64 on plain Go, in which [Compare] checks every
// gradient against central differences.
package nn
