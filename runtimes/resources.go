package runtimes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
)

// CPU is the device of engines that compute on the processor.
const CPU = "cpu"

// OnlyCPU returns an [Unavailable] if the limits ask an engine that computes on the
// processor for another device.
func (l Limits) OnlyCPU(engine string) error {
	if l.Device == "" || l.Device == CPU {
		return nil
	}
	return &Unavailable{What: "device " + l.Device, Why: "the " + engine + " backend computes on the processor", Hint: "leave the device out"}
}

// TooLarge returns the [Unavailable] of a part whose weights exceed the limit of memory.
func (b *Bundle) TooLarge(l Limits, hint string) error {
	return &Unavailable{What: b.Part.ID(), Why: fmt.Sprintf("its weights do not fit into %d bytes of memory", l.Memory), Hint: hint}
}

// Weights returns the path of a part's file and subtracts its size from left, the bytes
// that remain of the limit of memory, if there is one.
func (b *Bundle) Weights(format abi.Format, l Limits, left *int64) (string, error) {
	path, err := b.Entry(format)
	if err != nil || l.Memory == 0 {
		return path, err
	}
	for _, piece := range gguf.PiecePaths(path) {
		info, err := os.Stat(piece)
		if errors.Is(err, fs.ErrNotExist) && piece != path {
			break // a whole model that is named as a piece, or one that Open refuses
		}
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", b.Part.ID(), err)
		}
		if *left -= info.Size(); *left < 0 {
			return "", b.TooLarge(l, "raise the limit, or export with fewer bits")
		}
	}
	return path, nil
}

// BuiltIn describes an engine that is part of mm.
func BuiltIn(format abi.Format) Info {
	info := Info{Version: "(devel)", Devices: []string{CPU}, Formats: []string{string(format)}, License: "Apache-2.0"}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		info.Version = b.Main.Version
	}
	return info
}
