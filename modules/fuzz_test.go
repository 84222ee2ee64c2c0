package modules_test

import (
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/modules"
)

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../catalog/*/module.yaml", "../schemas/testdata/playbook/*/module.yaml"} {
		paths, _ := filepath.Glob(pattern)
		for _, p := range paths {
			data, err := os.ReadFile(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, list := modules.Parse("module.yaml", data)
		if m == nil {
			if !list.Failed() {
				t.Fatal("no manifest and no fault")
			}
			return
		}
		m.Paths()
		m.TCap()
		m.Contract()
		if m.Runtime != nil {
			_ = m.Runtime.Limits.Effective().String()
		}
	})
}
