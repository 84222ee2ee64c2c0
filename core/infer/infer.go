// Package infer runs decoder language models on the CPU.
//
// The way of a text: [Load] maps a GGUF file, holds every tensor against the
// model's shape and packs the weights (core/quant/pack). [Model.NewSession]
// gives a [Session], which holds the keys and values of the positions so far
// . [Session.Feed] and [Session.FeedVectors] send tokens, or
// the vectors of an encoder, through the model; [Session.Logits] says what it
// expects next, and [Session.Generate] draws tokens from that
// (core/infer/sample) and feeds them again.
//
// Letters: T positions in a pass, C = d_model, H query heads and G key/value
// heads of D dimensions, F the width of the feed-forward layer, V tokens of
// vocabulary.
//
// A position's logits depend on the tokens before it alone: they are the same
// to the last bit whether tokens are fed one by one or together, and on any
// number of threads. Reusing a prefix, speculating with a draft model or
// with what the text repeats of itself, and taking up a saved session are
// therefore exact.
package infer
