// Package modal trains the parts of a multimodal build that are no language
// models, and a core to use them: encoders by the signs of what they see or hear
// ([Reader]), encoders and projectors by what the core says of a picture or a
// sound ([Perception]).
//
// The way of a run: a [Recipe] says everything; [New], or [Resume], opens the
// core, the networks and the sources that it names and builds the trainer of the
// task that follows from them. A Reader's example is an input and the signs at
// their places; no core is asked. A Perception's is one document of the core,
// with the projector's vectors between the modality's markers:
//
//	<image> v1 … vN </image>How many bars? 4<eos>
//
// and the loss is that of the answers alone, so that it reaches the projector,
// and the encoder behind it, through the core. What trains and what is sealed
// follows from the recipe's [Stage]; the trainer's hashes prove it. A film is the
// vectors of its frames, brought together over each half of them.
//
// An example is a pure function of the recipe's seed and its number, so a run is
// the same bit for bit on any number of threads and through interruptions.
package modal
