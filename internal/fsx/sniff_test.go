package fsx_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

func TestBytes(t *testing.T) {
	for _, tc := range []struct {
		head string
		want fsx.FileKind
	}{
		{"", fsx.Empty},
		{"GGUF\x03\x00\x00\x00", fsx.GGUF},
		{"GGU", fsx.Text},
		{"\x40\x00\x00\x00\x00\x00\x00\x00{\"w\":", fsx.Safetensors},
		{"\xff\xff\xff\xff\xff\xff\xff\xff{", fsx.Unknown},
		{"\x08\x07\x12\x07pytorch", fsx.ONNX},
		{"\x08\x0a:\x10", fsx.ONNX},
		{"\x1c\x00\x00\x00ORTM\x00", fsx.ORT},
		{"\x1c\x00\x00\x00ORT", fsx.Unknown},
		{"PK\x03\x04", fsx.Zip},
		{"\x80\x02}q\x00", fsx.Zip},
		{"\x1f\x8b\x08", fsx.Gzip},
		{"version https://git-lfs.github.com/spec/v1\n", fsx.Pointer},
		{"\ufeff \n<!DOCTYPE html>\n", fsx.HTML},
		{"<html lang=en>", fsx.HTML},
		{"<p>", fsx.Text},
		{"name: core-llm\n", fsx.Text},
		{"{\"inputs\": []}", fsx.Text},
		{strings.Repeat("ä", 300), fsx.Text},       // cut between characters
		{"x" + strings.Repeat("ä", 300), fsx.Text}, // cut within a character
		{"a\xffb", fsx.Unknown},
		{"a\x00b", fsx.Unknown},
		{strings.Repeat("\x00", 600), fsx.Unknown},
	} {
		if got := fsx.Sniff([]byte(tc.head)); got != tc.want {
			t.Errorf("%.20q is %q, want %q", tc.head, got, tc.want)
		}
	}
}

// No input panics, and bytes beyond the head do not matter.
func FuzzBytes(f *testing.F) {
	f.Add([]byte("GGUF"))
	f.Add([]byte("\x40\x00\x00\x00\x00\x00\x00\x00{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := fsx.Sniff(b); got == "" || got != fsx.Sniff(b[:min(len(b), fsx.SniffLen)]) {
			t.Errorf("%q", got)
		}
	})
}
