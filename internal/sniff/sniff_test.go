package sniff_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/internal/sniff"
)

func TestBytes(t *testing.T) {
	for _, tc := range []struct {
		head string
		want sniff.Kind
	}{
		{"", sniff.Empty},
		{"GGUF\x03\x00\x00\x00", sniff.GGUF},
		{"GGU", sniff.Text},
		{"\x40\x00\x00\x00\x00\x00\x00\x00{\"w\":", sniff.Safetensors},
		{"\xff\xff\xff\xff\xff\xff\xff\xff{", sniff.Unknown},
		{"\x08\x07\x12\x07pytorch", sniff.ONNX},
		{"\x08\x0a:\x10", sniff.ONNX},
		{"\x1c\x00\x00\x00ORTM\x00", sniff.ORT},
		{"\x1c\x00\x00\x00ORT", sniff.Unknown},
		{"PK\x03\x04", sniff.Zip},
		{"\x80\x02}q\x00", sniff.Zip},
		{"\x1f\x8b\x08", sniff.Gzip},
		{"version https://git-lfs.github.com/spec/v1\n", sniff.Pointer},
		{"\ufeff \n<!DOCTYPE html>\n", sniff.HTML},
		{"<html lang=en>", sniff.HTML},
		{"<p>", sniff.Text},
		{"name: core-llm\n", sniff.Text},
		{"{\"inputs\": []}", sniff.Text},
		{strings.Repeat("ä", 300), sniff.Text},       // cut between characters
		{"x" + strings.Repeat("ä", 300), sniff.Text}, // cut within a character
		{"a\xffb", sniff.Unknown},
		{"a\x00b", sniff.Unknown},
		{strings.Repeat("\x00", 600), sniff.Unknown},
	} {
		if got := sniff.Bytes([]byte(tc.head)); got != tc.want {
			t.Errorf("%.20q is %q, want %q", tc.head, got, tc.want)
		}
	}
}

// No input panics, and bytes beyond the head do not matter.
func FuzzBytes(f *testing.F) {
	f.Add([]byte("GGUF"))
	f.Add([]byte("\x40\x00\x00\x00\x00\x00\x00\x00{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := sniff.Bytes(b); got == "" || got != sniff.Bytes(b[:min(len(b), sniff.Head)]) {
			t.Errorf("%q", got)
		}
	})
}
