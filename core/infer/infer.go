// Package infer runs decoder language models on the CPU.
//
// [Load] maps a GGUF file, checks every tensor against the model's shape and
// packs the weights (core/quant/panel). [Model.NewSession] returns a [Session],
// which holds the keys and values of the positions so far. [Session.Feed] and
// [Session.FeedVectors] run tokens, or the vectors of an encoder, through the
// model; [Session.Logits] returns the scores of the next token, and
// [Session.Generate] draws tokens from them (core/infer/sample) and feeds them.
//
// Letters: T positions in a pass, C = d_model, H query heads and G key/value
// heads of D dimensions, F the width of the feed-forward layer, V tokens of
// vocabulary.
//
// A position's logits depend only on the tokens before it: they are the same
// bit for bit whether tokens are fed one by one or in a batch, on any number of
// threads. Reusing a prefix, speculating with a draft model or with repeated
// text, and resuming a saved session are therefore exact.
package infer
