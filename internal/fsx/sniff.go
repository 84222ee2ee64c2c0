package fsx

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// SniffLen is the number of bytes that suffices for Sniff.
const SniffLen = 512

// FileKind is the probable format of a file, guessed from its first bytes for error
// messages. Do not make decisions that depend on it being right.
type FileKind string

// The kinds. Unknown is the default.
const (
	Empty       FileKind = "empty"
	GGUF        FileKind = "a GGUF file, the weights of a model"
	Safetensors FileKind = "a safetensors file, weights without a description"
	ONNX        FileKind = "an ONNX file, the graph of a model"
	ORT         FileKind = "a file of ONNX Runtime's own format (.ort): export the model as ONNX"
	Zip         FileKind = "a zip archive or a checkpoint of PyTorch"
	Gzip        FileKind = "a gzip archive"
	Pointer     FileKind = "a Git LFS pointer, whose real file was not fetched"
	HTML        FileKind = "an HTML page, as a server sends in place of a file"
	Text        FileKind = "text"
	Unknown     FileKind = "no file of a kind that mm knows"
)

// maxHeader is the maximum size of the header of a safetensors file in bytes.
const maxHeader = 100 << 20

// Sniff returns the kind of a file that begins with head.
func Sniff(head []byte) FileKind {
	head = head[:min(len(head), SniffLen)]
	begins := func(s string) bool { return bytes.HasPrefix(head, []byte(s)) }
	switch {
	case len(head) == 0:
		return Empty
	case begins("GGUF"):
		return GGUF
	case len(head) >= 8 && string(head[4:8]) == "ORTM": // a FlatBuffers identifier
		return ORT
	case begins("PK\x03\x04"), begins("\x80\x02"), begins("\x80\x04"):
		return Zip
	case begins("\x1f\x8b"):
		return Gzip
	case begins("version https://git-lfs"):
		return Pointer
	case len(head) > 8 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= maxHeader:
		return Safetensors
	case len(head) > 2 && head[0] == 0x08 && head[1] < 0x20 && (head[2] == 0x12 || head[2] == 0x1a || head[2] == 0x3a):
		return ONNX // ir_version, then producer_name, producer_version or graph
	case !text(head):
		return Unknown
	case markup(head):
		return HTML
	}
	return Text
}

// markup reports whether text begins as an HTML page.
func markup(head []byte) bool {
	s := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(head), "\ufeff")))
	return strings.HasPrefix(s, "<!doctype html") || strings.HasPrefix(s, "<html") || strings.HasPrefix(s, "<head")
}

// text reports whether head is UTF-8 without control characters that text does not contain.
// The last character may be incomplete.
func text(head []byte) bool {
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError && n == 1 {
			return !utf8.FullRune(head)
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' {
			return false
		}
		head = head[n:]
	}
	return true
}
