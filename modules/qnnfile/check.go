package qnnfile

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx/htp"
)

// Report is the result of a check.
type Report struct {
	File     string    `json:"file"`
	Target   string    `json:"target"`
	Fits     bool      `json:"fits"` // every checked axis fits or is accepted
	Contexts []Judged  `json:"contexts"`
	Faults   diag.List `json:"diagnostics"`
	// Unchecked are the axes that were left out because the target's value is
	// unspecified.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Judged is a context with its axes.
type Judged struct {
	Name string `json:"name"`
	Axes []Axis `json:"axes"`
}

// Axis is a property that file and target must agree on.
type Axis struct {
	Name     string      `json:"axis"`
	Verdict  htp.Verdict `json:"verdict"`
	File     string      `json:"file"`
	Target   string      `json:"target"`
	Why      string      `json:"why,omitempty"`
	Hint     string      `json:"hint,omitempty"`
	Accepted bool        `json:"accepted,omitempty"` // unknown, but accepted
}

// CheckOptions configures a check.
type CheckOptions struct {
	Target htp.Target
	// Accept lists axes that may be unknown. A mismatch is never accepted.
	Accept []string
	// Partial leaves out the axes whose value of the target is unspecified, the
	// libraries and the memory. Otherwise they are unknown.
	Partial bool
}

// Check checks the contexts of the file at path for a target.
func Check(path string, opt CheckOptions) (Report, error) {
	f, err := Open(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	return f.Check(opt), nil
}

// Check checks the contexts of an open file for a target.
func (f *File) Check(opt CheckOptions) Report {
	r := Report{File: f.Path, Target: opt.Target.Name, Contexts: []Judged{}, Faults: diag.List{}}
	if opt.Target.SDK != nil {
		r.Target += "@" + opt.Target.SDK.String()
	}
	for _, p := range f.Parts {
		axes := append(htp.Check(p.Context, opt.Target), f.around(p, opt.Target)...)
		judged := Judged{Name: p.Name, Axes: []Axis{}}
		for _, a := range axes {
			if a.Verdict == htp.Unasked && !opt.Partial {
				a.Verdict = htp.Unknown
			}
			accepted := a.Verdict == htp.Unknown && slices.Contains(opt.Accept, a.Name)
			judged.Axes = append(judged.Axes, Axis{a.Name, a.Verdict, a.File, a.Target, a.Why, a.Hint, accepted})
			if a.Verdict == htp.Unasked && !slices.Contains(r.Unchecked, a.Name) {
				r.Unchecked = append(r.Unchecked, a.Name)
			}
			if a.Verdict != htp.Fits && a.Verdict != htp.Unasked {
				enter(&r.Faults, f.Path, p, a, accepted)
			}
		}
		r.Contexts = append(r.Contexts, judged)
		if why := p.Context.Unread; why != "" { // cannot be accepted
			r.Faults.Add(diag.QNNUnread, diag.Pos{File: f.Path}, p.Name+": "+why, "try a newer mm")
		}
	}
	if len(f.Parts) == 0 {
		r.Faults.Add(diag.QNNNoContext, diag.Pos{File: f.Path}, fmt.Sprintf("a %s for any chip: it is compiled on the target and cannot be checked here", f.Format), diag.QNNNoContext.Fix())
	}
	r.Fits = !r.Faults.Failed()
	return r
}

// enter adds the diagnostic of an axis that does not fit or is unknown.
func enter(list *diag.List, path string, p Part, a htp.Axis, accepted bool) {
	detail := fmt.Sprintf("%s: %s: the file %s, the target %s: %s", p.Name, a.Name, a.File, a.Target, a.Why)
	code := diag.TargetUnknown
	if a.Verdict == htp.Not {
		code = codeOf(a.Name)
	}
	if accepted {
		list.Warn(code, diag.Pos{File: path}, detail, "")
		return
	}
	list.Add(code, diag.Pos{File: path}, detail, a.Hint)
}

// codeOf returns the code of an axis that does not fit.
func codeOf(axis string) diag.Code {
	switch axis {
	case htp.AxisArch, htp.AxisSoC, htp.AxisStamp:
		return diag.TargetChip
	case htp.AxisSDK, htp.AxisCore, htp.AxisBack, htp.AxisSystem:
		return diag.TargetSDK
	case htp.AxisSkel:
		return diag.TargetLibraries
	case htp.AxisDType:
		return diag.TargetDType
	case htp.AxisVTCM, htp.AxisMemory:
		return diag.TargetMemory
	case htp.AxisWrapper:
		return diag.WrapperDiffers
	case htp.AxisOperator:
		return diag.OperatorsLeft
	}
	return diag.TargetBackend
}

// around checks the file around a context.
func (f *File) around(p Part, t htp.Target) []htp.Axis {
	switch f.Format {
	case LiteRT:
		return []htp.Axis{f.stamp(t), operators(litertView(f.litert).Left)}
	case EPContext:
		a := htp.Axis{Name: htp.AxisWrapper, Verdict: htp.Fits, File: fmt.Sprintf("node %q", p.node.Name), Target: fmt.Sprintf("graph %q", p.node.Graph)}
		var all []string
		for _, d := range p.node.Compare(p.Context) {
			all = append(all, differs(d.What, d.Node, d.Context))
		}
		if all != nil {
			a.Verdict, a.Why, a.Hint = htp.Not, strings.Join(all, "; "), "create the model again with mm qnn wrap"
		} else if p.Context.Unread != "" {
			a.Verdict, a.Why, a.Hint = htp.Unknown, p.Context.Unread, "try a newer mm"
		}
		return []htp.Axis{a, operators(f.onnxView().Left)}
	}
	return nil
}

// stamp checks the chip that the model declares.
func (f *File) stamp(t htp.Target) htp.Axis {
	a := htp.Axis{Name: htp.AxisStamp, Verdict: htp.Unknown, File: "none", Target: t.Name, Why: "the model does not declare its chip", Hint: "accept it with --accept stamp"}
	s := f.litert.Stamp
	if s == nil {
		return a
	}
	a.File = s.Manufacturer + " " + s.SoC
	a.Why, a.Hint = "the table has no such chip", "add it with --socs FILE, or accept it with --accept stamp"
	arch, err := htp.ParseArch(s.SoC)
	if c, ok := t.Chips.Named(s.SoC); ok {
		arch, err = c.Arch, nil
		if t.Chip != nil && !strings.EqualFold(s.SoC, t.Chip.Name) && c.Model != t.Chip.Model && !(t.SameArch && arch == t.Arch) {
			a.Verdict, a.Why, a.Hint = htp.Not, "the model declares another chip", "compile it for "+t.Name
			return a
		}
	}
	switch {
	case s.Manufacturer != "Qualcomm":
		a.Verdict, a.Why, a.Hint = htp.Not, "the model declares a chip of another manufacturer", "compile it for "+t.Name
	case err != nil || t.Arch == 0:
	case arch != t.Arch:
		a.Verdict, a.Why, a.Hint = htp.Not, "the model declares another chip", "compile it for "+t.Name
	default:
		a.Verdict, a.Why, a.Hint = htp.Fits, "", ""
	}
	return a
}

// operators checks the operators that were not compiled: with any, a context is not
// the complete model.
func operators(left []Left) htp.Axis {
	a := htp.Axis{Name: htp.AxisOperator, Verdict: htp.Fits, File: "none left for the CPU", Target: "all compiled"}
	if len(left) == 0 {
		return a
	}
	var names []string
	for _, l := range left {
		names = append(names, fmt.Sprintf("%s %d", l.Name, l.Count))
	}
	a.Verdict, a.File = htp.Not, strings.Join(names, ", ")
	a.Why, a.Hint = "operators are left for the CPU: the contexts are not the complete model", "remove them, or replace them with operators that the NPU supports"
	return a
}
