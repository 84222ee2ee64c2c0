// Package htp defines the vocabulary of Qualcomm's QNN files: versions, data
// types, backends and architectures of the HTP, the NPU of a Snapdragon. It
// does not need Qualcomm's SDK.
//
// [ReadContext], [ReadLiteRT], [ReadDLC] and [ReadEPContext] read the files.
// [Check] compares a context with a target by tables of chips and releases.
package htp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Version is a version of an API, a blob or the SDK (QAIRT).
type Version struct{ Major, Minor, Patch uint32 }

// String formats the version as 2.47.0.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Compare returns -1, 0 or 1 if v is older than, equal to or newer than w.
func (v Version) Compare(w Version) int {
	for _, d := range [3][2]uint32{{v.Major, w.Major}, {v.Minor, w.Minor}, {v.Patch, w.Patch}} {
		if d[0] != d[1] {
			if d[0] < d[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// ParseVersion parses 2.47, 2.47.0 and a build such as v2.47.0.260601114230,
// whose part after the patch is ignored.
func ParseVersion(s string) (Version, error) {
	parts := strings.Split(strings.TrimPrefix(s, "v"), ".")
	if len(parts) < 2 || len(parts) > 4 {
		return Version{}, fmt.Errorf("bad version %q, want one such as 2.47", s)
	}
	var n [3]uint32
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 64)
		if err != nil || i < 3 && v > 1<<16 {
			return Version{}, fmt.Errorf("bad version %q, want one such as 2.47", s)
		}
		if i < 3 {
			n[i] = uint32(v)
		}
	}
	return Version{n[0], n[1], n[2]}, nil
}

// Backend is the library that runs a context.
type Backend uint32

// The backends with context binaries, numbered as in QNN.
const (
	CPU Backend = 3
	HTP Backend = 6
)

// String returns the backend's name.
func (b Backend) String() string {
	switch b {
	case CPU:
		return "CPU"
	case HTP:
		return "HTP"
	}
	return fmt.Sprintf("backend %d", uint32(b))
}

// Arch is an architecture of the Hexagon processor, 79 for v79; 0 is unknown.
type Arch uint32

// Limits of the architectures. 16-bit floats are unproven on v68: Qualcomm's
// compiler accepts them for it, and its emulation computes in 32 bits.
const (
	FirstHTP    Arch = 68 // below, a chip has a DSP and no HTP
	FirstFloats Arch = 69 // from here on the HTP computes in 16-bit floats
)

// String formats the architecture as v79.
func (a Arch) String() string {
	if a == 0 {
		return "unknown"
	}
	return fmt.Sprintf("v%d", uint32(a))
}

// ParseArch parses v79.
func ParseArch(s string) (Arch, error) {
	digits, ok := strings.CutPrefix(strings.ToLower(s), "v")
	n, err := strconv.ParseUint(digits, 10, 8)
	if !ok || err != nil || n < 60 || n > 99 {
		return 0, fmt.Errorf("bad architecture %q, want one such as v79", s)
	}
	return Arch(n), nil
}

// ErrOther reports a file of another kind.
var ErrOther = errors.New("not the expected file type")
