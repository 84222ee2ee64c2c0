package qnn

import (
	"context"
	"path/filepath"

	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/worker"
)

// Describe returns QnnSystem's description of a context that is a file, not embedded in
// an ONNX model. Tests compare it with mm's own reader.
func (e *Engine) Describe(ctx context.Context, p qnnfile.Part) (ask.Description, error) {
	var d ask.Description
	path, err := filepath.Abs(p.File)
	if err != nil {
		return d, err
	}
	opt, err := e.worker(ctx, native.QNN, 0)
	if err == nil {
		err = worker.Ask(ctx, opt, ask.Describe, ask.File{Path: path, Offset: p.Offset, Size: p.Size}, &d)
	}
	return d, err
}
