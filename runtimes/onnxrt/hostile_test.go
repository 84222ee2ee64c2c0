package onnxrt_test

import (
	"context"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/engines/enginestest"
	"mm-abi.org/mm/runtimes/onnxrt"
)

func TestDamagedFiles(t *testing.T) {
	e := onnxrt.Engine{Home: enginestest.Home(t, engines.ONNXRuntime)}
	good := filepath.Join(testfiles.Root(t), "modules", "vision-proj", "vision_proj.onnx")
	in := inputs(t, good, 3)
	enginestest.Damaged(t, good, enginestest.Hostile(t), func(ctx context.Context, path string) error {
		m, err := e.Open(ctx, bundle(path), runtimes.Limits{Threads: 1})
		if err != nil {
			return err
		}
		defer m.Close()
		_, err = m.(runtimes.Function).Run(ctx, in)
		return err
	})
}
