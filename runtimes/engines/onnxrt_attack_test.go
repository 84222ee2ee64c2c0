package engines_test

import (
	"errors"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/onnxtest"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
)

// External data outside the model's files is refused before the library is searched for.
func TestONNXRuntimeAttacks(t *testing.T) {
	for _, a := range onnxtest.Attacks() {
		t.Run(a.Name, func(t *testing.T) {
			e := engines.ONNXRuntime{Home: func() (string, error) {
				t.Error("the library was asked for")
				return "", errors.New("none")
			}}
			b := ortBundle(a.Plant(t))
			b.Part.Files["onnx"] = append(b.Part.Files["onnx"], a.Declared...)
			m, err := e.Open(t.Context(), b, runtimes.Limits{})
			if err == nil {
				m.Close()
			}
			var refused *onnx.Refused
			if !errors.As(err, &refused) || refused.Problems[0].Rule != a.Rule {
				t.Errorf("%v, not refused by the rule %s", err, a.Rule)
			}
		})
	}
}
