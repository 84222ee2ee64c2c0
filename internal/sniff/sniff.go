// Package sniff guesses the format of a file from its first bytes, for error messages. Do
// not make decisions that depend on it being right.
package sniff

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// Head is the number of bytes that suffices.
const Head = 512

// Kind is the probable format of a file.
type Kind string

// The kinds. Unknown is the default.
const (
	Empty       Kind = "empty"
	GGUF        Kind = "a GGUF file, the weights of a model"
	Safetensors Kind = "a safetensors file, weights without a description"
	ONNX        Kind = "an ONNX file, the graph of a model"
	ORT         Kind = "a file of ONNX Runtime's own format (.ort): export the model as ONNX"
	Zip         Kind = "a zip archive or a checkpoint of PyTorch"
	Gzip        Kind = "a gzip archive"
	Pointer     Kind = "a Git LFS pointer, whose real file was not fetched"
	HTML        Kind = "an HTML page, as a server sends in place of a file"
	Text        Kind = "text"
	Unknown     Kind = "no file of a kind that mm knows"
)

// maxHeader is the maximum size of the header of a safetensors file in bytes.
const maxHeader = 100 << 20

// Bytes returns the kind of a file that begins with head.
func Bytes(head []byte) Kind {
	head = head[:min(len(head), Head)]
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
