package train

import (
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/train/nn"
)

// Task is what a run trains: tensors, the data they learn from, and the loss
// between them. A language model is one, see [LM]; a projector before a frozen
// core is another. A trainer knows no more of it than this, and calls it from
// one goroutine.
type Task interface {
	// Tensors lists all tensors by name, always the same in the same order.
	// Those with a gradient train, the others are sealed.
	Tensors() []*nn.Tensor[float32]
	// Size says how large the task and its data are.
	Size() Size
	// Batches reads the k batches of the coming step and gives the number of
	// terms, such as predicted tokens, that their losses add up.
	Batches(k int) (terms int, err error)
	// Pass takes the i-th of them forward and backward and gives the sum of
	// its losses, in nats. scale multiplies the loss in the gradients; with add
	// they are added to those of earlier batches, else they replace them.
	Pass(i int, scale float64, add bool) (loss float64, err error)
	// Refresh is told that weights have changed: all of them the first time,
	// later those that train.
	Refresh()
	// Evaluate measures the weights as they stand on data kept apart; it is not
	// called where Size.Held is 0.
	Evaluate() (Evaluation, error)
	// State is what a checkpoint keeps beside the tensors, the place in the
	// data above all.
	State() (State, error)
}

// Size is the extent of a task.
type Size struct {
	FLOPs       int // of training, a position
	Batch       int // positions in a batch, by which Stop.Tokens counts
	Train, Held int // positions to train on, which make an epoch, and kept apart
}

// State is a task's own part of a checkpoint.
type State struct {
	Kind    string // of the task: a checkpoint goes back to its own kind
	Header  any    // kept as JSON
	Tensors []safetensors.Source
}

// Evaluation is the loss on a fixed set of data.
type Evaluation struct {
	Loss        float64 `json:"loss"`          // nats a prediction
	BitsPerByte float64 `json:"bits_per_byte"` // of the bytes the predicted tokens stand for; 0 where nobody counts bytes
	Predictions int     `json:"predictions"`   // terms of the loss
	Bytes       int     `json:"bytes"`         // that they stand for
	// Scores are how often answers were right, by the kind of question; none of a
	// task that answers nothing.
	Scores []Score `json:"scores,omitempty"`
}

// Parted is a [Task] that is made of parts, such as an encoder and a core.
// Finished tells of those that were frozen as a whole.
type Parted interface {
	// Part names the part that the tensor of this name belongs to.
	Part(tensor string) string
}
