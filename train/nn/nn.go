// Package nn is the parts that trained networks are made of: a linear layer,
// attention, the feed-forward network and the norm, each with its forward pass
// directly followed by its backward pass, without an autograd library. A
// language model is made of them, see train/llm, and so are an encoder and a
// projector.
//
// Letters used throughout: T positions in a sequence, B sequences in a batch, C
// the width of the residual stream, H query heads, G key/value heads, D elements
// a head, F the width inside a feed-forward network. Shapes are written [rows,
// columns]; a matrix of activations has one row per position.
//
// The way of a network: [NewParams] makes room for named tensors, in one block
// of memory; layers ([Linear], [Attention], [FFN], [Norm]) point into it. For a
// pass over B·T positions every layer gets a place ([Product], [AttentionPass],
// [FFNPass]) with its activations. Forward and backward take the positions of
// one sequence at a time and touch no other, so that threads share nothing; the
// gradients of vectors, such as gains, go into a buffer of the sequence, see
// [Params.Spread]. When all sequences are through, [Gradients] makes the weight
// gradients of the matrices, one product over all positions each, split over
// the threads by columns. The same bits come out for any number of threads.
//
// Everything is generic in the element type: float32 runs on the assembly
// kernels of core/tensor, float64 on plain Go, in which [Compare] holds every
// gradient against central differences.
package nn
