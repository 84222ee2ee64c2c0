package compile

import (
	"context"
	"errors"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/qdq"
)

var (
	// Emulated compares a context with a model, for tests.
	Emulated = emulated
	// Least is the least cosine of a job, for tests.
	Least = least
	// Judge finds the worst output, for tests.
	Judge = (*Record).judge
	// Turn writes products with a constant in front the other way about, for tests.
	Turn = func(f *qdq.Frozen) error { return turn(f) }
)

// Digest is that of the context compiled from a model, which is not run, for
// tests.
func Digest(ctx context.Context, e Engine, opt Options, dir string) (digest string, err error) {
	m, err := onnx.Admit(opt.Model, onnx.AdmitOptions{CheckOptions: engine.Checks()})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	bits, err := opt.Precision.bits()
	if err != nil {
		return "", err
	}
	inputs, err := Fit(m, opt.Inputs)
	if err != nil {
		return "", err
	}
	p, err := prepare(ctx, m, inputs, bits, opt, &Record{})
	if err != nil {
		return "", err
	}
	got, err := compiled(ctx, e, p, dir, opt)
	return got.Digest, err
}
