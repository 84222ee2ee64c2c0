// Package preference trains a language model on pairs of answers of which one
// is preferred: the right call of a tool and a wrong one, for example.
//
// [New], or [Resume], opens the core and the pairs of a [Recipe] and builds the
// trainer of a [Task]. The reference is the core before the first step; its
// losses of all answers are computed once, hashed and saved with the
// checkpoints, so no second model runs:
//
//	pairs → reference's nats (once)
//	      → policy's nats → [Objective.Loss] → factors → gradient
//
// The gradient is exact: an objective is a function of the sums of the answers'
// losses, and [llm.Pass.TrainWeighted] runs one forward and one backward pass.
//
// The order of the pairs is a pure function of the recipe's seed, so a run is
// bit-identical on any number of threads and through interruptions.
package preference
