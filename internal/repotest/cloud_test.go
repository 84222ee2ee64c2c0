package repotest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every module of catalog/cloud has the same variables and outputs.
func TestCloudNames(t *testing.T) {
	want := map[string][]string{
		"variable": {"inference", "labels", "name", "network_cidr", "region", "retention_days", "runner_issuer", "runner_subject", "training"},
		"output":   {"buckets", "cluster", "keys", "manifests", "queue", "registry", "runner_identity"},
	}
	modules, err := filepath.Glob(filepath.Join(root(t), "catalog", "cloud", "*", "main.tf"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("no module in catalog/cloud: %v", err)
	}
	block := regexp.MustCompile(`(?m)^(variable|output) "([a-z_]+)" \{`)
	for _, main := range modules {
		got := map[string][]string{}
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(main), "*.tf"))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range block.FindAllStringSubmatch(string(data), -1) {
				got[m[1]] = append(got[m[1]], m[2])
			}
		}
		for _, names := range got {
			slices.Sort(names)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", filepath.Dir(main), diff)
		}
	}
}
