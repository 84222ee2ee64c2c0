package qnn

import (
	"context"
	"path/filepath"

	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/worker"
)

// Describe asks QnnSystem what is in a context that lies in a file as it is, not
// in an ONNX model: what our own reader is compared with.
func (e *Engine) Describe(ctx context.Context, p qnnfile.Part) (ask.Description, error) {
	var d ask.Description
	path, err := filepath.Abs(p.File)
	if err != nil {
		return d, err
	}
	opt, err := e.worker(native.QNN, 0)
	if err == nil {
		err = worker.Ask(ctx, opt, ask.Describe, ask.File{Path: path, Offset: p.Offset, Size: p.Size}, &d)
	}
	return d, err
}
