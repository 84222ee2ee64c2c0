package modules_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

const speaker = `name: v
version: 1.0.0
type: decoder
modality: audio
abi: mm-abi-1.2
license: MIT
inputs: [{name: ids, shape: [T], dtype: int64}, {name: scales, shape: [3], dtype: fp32}]
outputs: [{name: y, shape: [S], dtype: fp32}]
speech: {symbols: s.json, ids: ids, scales: {input: scales, values: [1, 1, 1], length: 1}}
files: [{path: s.json, sha256: "0000000000000000000000000000000000000000000000000000000000000000", size: 1}]
`

func TestSpeechBlock(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		code     diag.Code
		want     string
	}{
		"right":            {"", "", "", ""},
		"earlier":          {"mm-abi-1.2", "mm-abi-1.1", diag.NeedsABI, "speech"},
		"unknown input":    {"ids: ids", "ids: tokens", diag.BadBlock, `unknown input "tokens"`},
		"unfilled":         {", scales: {input: scales, values: [1, 1, 1], length: 1}", "", diag.BadBlock, `nothing fills the input "scales"`},
		"twice":            {"ids: ids", "ids: ids, speed: ids", diag.BadBlock, "two uses"},
		"length":           {"length: 1", "length: 3", diag.BadBlock, "value 3 of 3"},
		"output":           {"ids: ids", "ids: ids, output: z", diag.BadBlock, `output "z"`},
		"image":            {"modality: audio", "modality: image", diag.BadBlock, "requires the modality audio"},
		"voices, speakers": {"ids: ids", "ids: ids, voices: {input: scales, files: [s.json]}, speakers: {input: scales}", diag.BadBlock, "exclude each other"},
		"unlisted":         {"symbols: s.json", "symbols: t.json", diag.FileMissing, "t.json"},
		"alphabet":         {"ids: ids", "ids: ids, from: arpabet", diag.NotAllowed, "arpabet"},
		"language":         {"ids: ids", "ids: ids, language: --help", diag.WrongForm, "--help"},
	} {
		_, list := modules.Parse("module.yaml", []byte(strings.Replace(speaker, c.old, c.new, 1)))
		found := c.code == "" && !list.Failed()
		for _, d := range list {
			found = found || d.Code == c.code && strings.Contains(d.Detail, c.want)
		}
		if !found {
			t.Errorf("%s: %v, want %s %q", name, list, c.code, c.want)
		}
	}
}
