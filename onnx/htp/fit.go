// [Check] reports whether a context fits a target before a byte is moved
// there: whether a phone with this chip and these libraries accepts it, axis by
// axis, with both values.
//
// [ParseTarget] parses SM8750@2.47; [Check] returns an [Axis] for the backend,
// architecture, chip, SDK, APIs, libraries, element types and memory. Each
// fits, does not fit, is unknown or not checked: a missing value does not count
// as a fit.
// Nothing is run: emulation takes any context and would prove nothing.

package htp

import (
	"fmt"
	"strings"
)

// Verdict is the result for an axis.
type Verdict string

// The verdicts.
const (
	Fits    Verdict = "fits"
	Not     Verdict = "does not fit"
	Unknown Verdict = "unknown"
	// Unasked is the verdict of an axis whose value of the target is unspecified:
	// the libraries and the memory, which the name of a target does not contain.
	Unasked Verdict = "not checked"
)

// The axes, in the order of output.
const (
	AxisBackend  = "backend"
	AxisArch     = "arch"
	AxisSoC      = "soc"
	AxisSDK      = "sdk"
	AxisCore     = "core-api"
	AxisBack     = "backend-api"
	AxisSystem   = "system"
	AxisSkel     = "skel"
	AxisDType    = "dtype"
	AxisVTCM     = "vtcm"
	AxisMemory   = "memory"
	AxisWrapper  = "wrapper"
	AxisStamp    = "stamp"
	AxisOperator = "operators"
)

// Axes returns all axes.
func Axes() []string {
	return []string{AxisBackend, AxisArch, AxisSoC, AxisSDK, AxisCore, AxisBack, AxisSystem, AxisSkel, AxisDType, AxisVTCM, AxisMemory, AxisWrapper, AxisStamp, AxisOperator}
}

// Axis is a property on which a file and a target must agree.
type Axis struct {
	Name    string
	Verdict Verdict
	File    string // what the file has or needs
	Target  string // what the target has
	Why     string // reason, if it does not fit or is unknown
	Hint    string
}

// Target describes the device that runs a context.
type Target struct {
	Name string // as entered
	// Chip is nil if the target names an architecture or an unknown chip.
	Chip *Chip
	Arch Arch // 0 is unknown
	// SDK is nil if unspecified.
	SDK *Version
	// Libs are the target's libraries; nil if unspecified.
	Libs *Libraries
	// Memory is the target's memory limit in bytes; 0 if unspecified.
	Memory int64
	// SameArch accepts a context for another chip of the same architecture.
	SameArch bool
	Chips    Chips
}

// ParseTarget parses CHIP[@SDK]. The chip is a name such as SM8750, a number
// such as soc:69, or an architecture such as v79. A chip missing from the table
// is not an error: its axes are unknown.
func ParseTarget(s string, chips Chips) (Target, error) {
	name, sdk, versioned := strings.Cut(s, "@")
	t := Target{Name: name, Chips: chips}
	if name == "" || versioned && sdk == "" {
		return t, fmt.Errorf("bad target %q, want one such as SM8750@2.47", s)
	}
	if versioned {
		v, err := ParseVersion(sdk)
		if err != nil {
			return t, err
		}
		t.SDK = &v
	}
	if a, err := ParseArch(name); err == nil {
		t.Arch = a
		return t, nil
	}
	if c, ok := chips.Named(name); ok {
		t.Chip, t.Arch = &c, c.Arch
	}
	return t, nil
}

// Check compares a context with a target on every axis that a bare context has.
func Check(c *Context, t Target) []Axis {
	j := judge{c: c, t: t}
	if t.SDK != nil {
		j.sdk = FindSDK(*t.SDK)
	}
	if c.Unread != "" {
		for _, name := range Axes()[:11] {
			j.out = append(j.out, Axis{name, Unknown, "", t.Name, c.Unread, "a newer mm may read it"})
		}
		return j.out
	}
	j.backend()
	j.arch()
	j.chip()
	j.release()
	j.interfaces()
	j.system()
	j.skel()
	j.elements()
	j.vtcm()
	j.memory()
	return j.out
}

// judge collects the axes of one context.
type judge struct {
	c   *Context
	t   Target
	sdk SDK // of the target; zero fields are unknown
	out []Axis
}

func (j *judge) add(name string, v Verdict, file, target, why, hint string) {
	if v == Fits {
		why, hint = "", ""
	}
	j.out = append(j.out, Axis{name, v, file, target, why, hint})
}

func (j *judge) backend() {
	v := Fits
	if j.c.Backend != HTP {
		v = Not
	}
	j.add(AxisBackend, v, j.c.Backend.String(), HTP.String(), "the context is for another library of QNN's than the NPU's", "compile it with libQnnHtp")
}

// arch compares the architectures. The file's architecture and the table's
// architecture of its chip must agree.
func (j *judge) arch() {
	if j.t.Arch != 0 && j.t.Arch < FirstHTP {
		j.add(AxisArch, Not, j.c.Arch.String(), j.t.Arch.String(), "the target has a DSP and no HTP", fmt.Sprintf("name a target of %s or later: mm qnn soc ls lists the chips", FirstHTP))
		return
	}
	file, from := j.c.Arch, j.c.Arch.String()
	if chip, ok := j.t.Chips.Numbered(j.c.SoC); ok && j.c.SoC != 0 {
		switch {
		case file == 0:
			file, from = chip.Arch, fmt.Sprintf("%s, by its chip", chip.Arch)
		case file != chip.Arch:
			j.add(AxisArch, Unknown, fmt.Sprintf("%s, its chip %d has %s", file, j.c.SoC, chip.Arch), j.t.Arch.String(), "the file contradicts the table of chips", "mm qnn soc ls shows the table; --socs FILE corrects it")
			return
		}
	}
	v, why, hint := Fits, "", ""
	switch {
	case file == 0:
		v, why, hint = Unknown, "the file has no architecture and no chip of the table", "compile it with soc_model set"
	case j.t.Arch == 0:
		v, why, hint = Unknown, "the table has no chip of that name", "mm qnn soc ls shows the table; --socs FILE adds to it"
	case file != j.t.Arch:
		v, why, hint = Not, "a context runs on the architecture that it was compiled for", "compile it for "+j.t.Name
	}
	j.add(AxisArch, v, from, j.t.Arch.String(), why, hint)
}

// chip compares the chips.
func (j *judge) chip() {
	file := j.chipName(j.c.SoC)
	if j.t.Chip == nil {
		v, why, hint := Unknown, "the target names no chip that the table has", "mm qnn soc ls shows the table; --socs FILE adds to it"
		if j.t.Arch != 0 && j.t.SameArch {
			v = Fits
		} else if j.t.Arch != 0 {
			why, hint = "the target is an architecture, not a chip", "name the chip, or take any of the architecture with --same-arch"
		}
		j.add(AxisSoC, v, file, j.t.Name, why, hint)
		return
	}
	target := j.chipName(j.t.Chip.Model)
	switch {
	case j.c.SoC == 0:
		j.add(AxisSoC, Unknown, "none", target, "the file does not name its chip", "compile it with soc_model set")
	case j.c.SoC == j.t.Chip.Model || j.t.Chips.Has(j.t.Chip.Name, j.c.SoC):
		j.add(AxisSoC, Fits, file, target, "", "")
	case j.t.SameArch && j.c.Arch != 0 && j.c.Arch == j.t.Arch:
		j.add(AxisSoC, Fits, file, target, "", "")
	default:
		hint := "compile it for " + j.t.Chip.Name
		if j.c.Arch == j.t.Arch && j.c.Arch != 0 {
			hint += ", or take another chip's of the same architecture with --same-arch"
		}
		j.add(AxisSoC, Not, file, target, "it was compiled for another chip", hint)
	}
}

func (j *judge) chipName(model uint32) string {
	if names := j.t.Chips.Names(model); len(names) > 0 && model != 0 {
		return fmt.Sprintf("%s (%d)", strings.Join(names, ", "), model)
	}
	return fmt.Sprint(model)
}
