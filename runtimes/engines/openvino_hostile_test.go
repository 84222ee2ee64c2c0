package engines_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx/ovir"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// Damaged models cause at most an error.
func TestOpenVINODamagedFiles(t *testing.T) {
	e := engines.OpenVINO{Home: runtimetest.Home(t, native.OpenVINO)}
	m, in := openvinoModule(t, "vision-proj/vision_proj.onnx")
	good := openvinoExported(t, m, "int8", in)
	file, err := good.Files.Path("m.xml")
	if err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(strings.TrimSuffix(file, ".xml") + ".bin")
	if err != nil {
		t.Fatal(err)
	}
	check := func(path string) error {
		if err := os.WriteFile(strings.TrimSuffix(path, ".xml")+".bin", weights, 0o600); err != nil {
			return err
		}
		_, err := ovir.Open(path)
		return err
	}
	use := func(ctx context.Context, _, path string) error {
		b := good
		b.Files = folder(filepath.Dir(path))
		f, err := e.Open(ctx, b, runtimes.Limits{Threads: 1, Memory: 1 << 30})
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.(runtimes.Function).Run(ctx, tensors(in))
		return err
	}
	runtimetest.Damaged(t, runtimetest.Hostile(t), []string{file}, runtimetest.Damage, check, runtimetest.Trial{Name: "openvino", Use: use})
}
