package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTextFolders runs the folders of language models that core/hf/testdata/models.py
// wrote as they are, and as modules, and compares the greedy ids with those of
// transformers.
func TestTextFolders(t *testing.T) {
	root := os.Getenv("MM_HF_DIR")
	if root == "" {
		t.Skip("skipped: MM_HF_DIR names no folder of models (make hf makes one)")
	}
	first, err := filepath.Glob(filepath.Join(root, "*.json"))
	if err != nil || len(first) == 0 {
		t.Fatal(len(first), err)
	}
	second, err := filepath.Glob(filepath.Join(root, "second", "*", "prompts.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MM_HOME", t.TempDir())
	runs, folders := 0, 0
	for _, list := range append(first, second...) {
		folder, file := strings.TrimSuffix(list, ".json"), struct{ Prompts []prompted }{}
		data, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(list) == "prompts.json" {
			folder = filepath.Dir(list)
			err = json.Unmarshal(data, &file.Prompts)
		} else {
			err = json.Unmarshal(data, &file)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(file.Prompts) == 0 {
			t.Fatalf("%s has no prompt", list)
		}
		if file.Prompts[0].Margin < rounding {
			t.Logf("%s is left out: two logits are within %.1e", filepath.Base(folder), file.Prompts[0].Margin)
			continue
		}
		folders++
		t.Run(filepath.Base(folder), func(t *testing.T) {
			module := filepath.Join(t.TempDir(), "module")
			must(t, "module", "import", "hf", folder, "--version", "1.0.0", "--license", "MIT", "--dir", module, "--name", "stranger")
			for _, c := range file.Prompts {
				continuesText(t, folder, c)
				continuesText(t, module, c)
				runs += 2
			}
		})
	}
	t.Logf("%d runs of %d folders and their modules", runs, folders)
}

// continuesText compares the greedy ids after a prompt with those of transformers.
func continuesText(t *testing.T, model string, c prompted) {
	t.Helper()
	var got struct {
		Tokens  []int32 `json:"tokens"`
		Stop    string  `json:"stop"`
		Timings struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"timings"`
	}
	out := must(t, "run", model, c.Prompt, "--json", "--temperature", "0", "--max-tokens", strconv.Itoa(len(c.IDs)))
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	want := c.IDs
	if got.Stop == "end" { // transformers ignored the end
		want = want[:min(len(got.Tokens), len(want))]
	}
	if len(got.Tokens) == 0 || got.Timings.Prompt != c.Positions || !slices.Equal(got.Tokens, want) {
		t.Errorf("%q: got %d positions and ids %v, want %d and %v (margin %.1e)", c.Prompt, got.Timings.Prompt, got.Tokens, c.Positions, want, c.Margin)
	}
}
