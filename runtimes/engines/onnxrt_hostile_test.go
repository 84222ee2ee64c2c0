package engines_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/onnxtest"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// Damaged models cause at most an error in every engine.
func TestONNXRuntimeDamagedFiles(t *testing.T) {
	var files []string
	in := make(map[string]map[string]runtimes.Tensor)
	for name, many := range map[string]int64{"vision-proj/vision_proj.onnx": 3, "audio-enc/audio_enc.onnx": 1600, "vision-enc/vision_enc.onnx": 32, "img-dec/img_dec.onnx": 1} {
		path := filepath.Join(testfiles.Root(t), "catalog", filepath.FromSlash(name))
		files, in[path] = append(files, path), inputs(t, path, many)
	}
	slices.Sort(files) // a number of a damaged file names the same one in every run
	use := func(e runtimes.Engine) func(ctx context.Context, file, path string) error {
		return func(ctx context.Context, file, path string) error {
			m, err := e.Open(ctx, ortBundle(path), runtimes.Limits{Threads: 1, Memory: 1 << 30})
			if err != nil {
				return err
			}
			defer m.Close()
			_, err = m.(runtimes.Function).Run(ctx, in[file])
			return err
		}
	}
	check := func(path string) error {
		m, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: onnx.CheckOptions{MinOpset: 1, MaxOpset: 27}})
		if err != nil {
			return err
		}
		return m.Close()
	}
	runtimetest.Damaged(t, runtimetest.Hostile(t), files, onnxtest.Mutate, check,
		runtimetest.Trial{Name: "core", Use: use(engines.ONNX{})},
		runtimetest.Trial{Name: "onnxruntime", Use: use(engines.ONNXRuntime{Home: runtimetest.Home(t, native.ONNXRuntime)})})
}
