package train

import (
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/train/nn"
)

// Task is the subject of a run: tensors, their data and the loss. Examples are
// a language model, see [LM], and a projector before a frozen core. A trainer
// uses only this interface, from one goroutine.
type Task interface {
	// Tensors lists all tensors by name, always the same in the same order.
	// Those with a gradient train, the others are sealed.
	Tensors() []*nn.Tensor[float32]
	// Size returns the extent of the task and its data.
	Size() Size
	// Batches reads the k batches of the next step and returns the number of
	// terms, such as predicted tokens, in the sum of their losses.
	Batches(k int) (terms int, err error)
	// Pass runs the i-th of them forward and backward and returns the sum of
	// its losses in nats. scale multiplies the loss in the gradients. If add is
	// set, gradients are added to those of earlier batches, otherwise they
	// replace them.
	Pass(i int, scale float64, add bool) (loss float64, err error)
	// Refresh is called after weights have changed: all of them the first time,
	// later those that train.
	Refresh()
	// Evaluate measures the current weights on held-out data. It is not called
	// if Size.Held is 0.
	Evaluate() (Evaluation, error)
	// State returns the task's part of a checkpoint other than the tensors,
	// such as the position in the data.
	State() (State, error)
}

// Size is the extent of a task.
type Size struct {
	FLOPs       int // of training, per position
	Batch       int // positions in a batch, the unit of Stop.Tokens
	Train, Held int // training positions, one epoch, and held-out positions
}

// Traced is a [Task] that names the data sets it trains on.
type Traced interface {
	Lineage() []Lineage
}

// State is a task's part of a checkpoint.
type State struct {
	Kind    string // of the task: a checkpoint resumes only the same kind
	Header  any    // stored as JSON
	Tensors []safetensors.Source
}

// Evaluation is the loss on a fixed set of data.
type Evaluation struct {
	Loss        float64 `json:"loss"`          // nats per prediction
	BitsPerByte float64 `json:"bits_per_byte"` // per byte of the predicted tokens; 0 if bytes are not counted
	Predictions int     `json:"predictions"`   // terms of the loss
	Bytes       int     `json:"bytes"`         // bytes of the predicted tokens
	// Scores count the right answers by kind of question, if the task answers
	// questions.
	Scores []Score `json:"scores,omitempty"`
}

// Parted is a [Task] with several parts, such as an encoder and a core.
// Finished lists the seals of the frozen parts.
type Parted interface {
	// Part returns the part of the tensor with this name.
	Part(tensor string) string
}
