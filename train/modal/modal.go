// Package modal trains the parts of a multimodal build other than language
// models, and a core to use them: encoders from the signs in their inputs
// ([Reader]), encoders and projectors from the core's answers about an image or
// a sound ([Perception]).
//
// [New], or [Resume], opens the core, the networks and the sources of a
// [Recipe] and builds the trainer of its task. A Reader's example is an input
// and the signs at their positions; it uses no core. A Perception's example is
// one document of the core, with the projector's vectors between the modality's
// markers:
//
//	<image> v1 … vN </image>How many bars? 4<eos>
//
// The loss is that of the answers alone; its gradient reaches the projector and
// the encoder through the core. The recipe's [Stage] determines the trained and
// sealed parts; the trainer's hashes prove it. The vectors of a video are the
// means of those of its frames over each half.
//
// An example is a pure function of the recipe's seed and its number, so a run
// is bit-identical on any number of threads and through interruptions.
package modal
