package repotest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every module of catalog/cloud has the same variables, byte for byte, and the
// same outputs with the same descriptions, each in its file alone.
func TestCloudNames(t *testing.T) {
	block := regexp.MustCompile(`(?m)^(variable|output) "([a-z_]+)" \{\n  description = (.+)`)
	folder := filepath.Join(root(t), "catalog", "cloud")
	blocks := func(path string) (out []string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(data), -1) {
			out = append(out, m[1]+" "+m[2]+": "+m[3])
		}
		return out
	}
	variables, err := os.ReadFile(filepath.Join(folder, "aws", "variables.tf"))
	if err != nil {
		t.Fatal(err)
	}
	outputs := blocks(filepath.Join(folder, "aws", "outputs.tf"))
	if len(outputs) != 7 {
		t.Errorf("outputs: got %d, want 7", len(outputs))
	}
	for _, cloud := range []string{"aws", "azure", "gcp"} {
		files, err := filepath.Glob(filepath.Join(folder, cloud, "*.tf"))
		if err != nil || !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == "main.tf" }) {
			t.Fatalf("%s: no module: %v", cloud, err)
		}
		for _, file := range files {
			switch filepath.Base(file) {
			case "variables.tf":
				if data, err := os.ReadFile(file); err != nil || string(data) != string(variables) {
					t.Errorf("%s differs from that of aws, %v", file, err)
				}
			case "outputs.tf":
				if diff := cmp.Diff(outputs, blocks(file)); diff != "" {
					t.Errorf("%s (-aws +%s)\n%s", file, cloud, diff)
				}
			default:
				if names := blocks(file); len(names) > 0 {
					t.Errorf("%s: want variables and outputs in their own files, got %v", file, names)
				}
			}
		}
	}
}
