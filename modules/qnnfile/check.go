package qnnfile

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/htp"
	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/diag"
)

// Report is what a check comes to.
type Report struct {
	File     string    `json:"file"`
	Target   string    `json:"target"`
	Fits     bool      `json:"fits"` // every axis does, but for those that were accepted
	Contexts []Judged  `json:"contexts"`
	Faults   diag.List `json:"diagnostics"`
}

// Judged is one context with its axes.
type Judged struct {
	Name string `json:"name"`
	Axes []Axis `json:"axes"`
}

// Axis is what a file and a target must agree on.
type Axis struct {
	Name     string      `json:"axis"`
	Verdict  fit.Verdict `json:"verdict"`
	File     string      `json:"file"`
	Target   string      `json:"target"`
	Why      string      `json:"why,omitempty"`
	Hint     string      `json:"hint,omitempty"`
	Accepted bool        `json:"accepted,omitempty"` // unknown, and taken all the same
}

// CheckOptions say what a file is held to.
type CheckOptions struct {
	Target fit.Target
	// Accept lists axes that may be unknown. One that does not fit is never
	// accepted.
	Accept []string
}

// Check judges the contexts of the file at path for a target.
func Check(path string, opt CheckOptions) (Report, error) {
	f, err := Open(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	return f.Check(opt), nil
}

// Check judges the contexts of an open file for a target.
func (f *File) Check(opt CheckOptions) Report {
	r := Report{File: f.Path, Target: opt.Target.Name, Contexts: []Judged{}, Faults: diag.List{}}
	if opt.Target.SDK != nil {
		r.Target += "@" + opt.Target.SDK.String()
	}
	for _, p := range f.Parts {
		axes := append(fit.Check(p.Context, opt.Target), f.around(p, opt.Target)...)
		judged := Judged{Name: p.Name, Axes: []Axis{}}
		for _, a := range axes {
			accepted := a.Verdict == fit.Unknown && slices.Contains(opt.Accept, a.Name)
			judged.Axes = append(judged.Axes, Axis{a.Name, a.Verdict, a.File, a.Target, a.Why, a.Hint, accepted})
			if a.Verdict != fit.Fits {
				enter(&r.Faults, f.Path, p, a, accepted)
			}
		}
		r.Contexts = append(r.Contexts, judged)
		if why := p.Context.Unread; why != "" { // which no flag accepts
			r.Faults.Add(diag.QNNUnread, diag.Pos{File: f.Path}, p.Name+": "+why, "a newer mm may read it")
		}
	}
	if len(f.Parts) == 0 {
		r.Faults.Add(diag.QNNNoContext, diag.Pos{File: f.Path}, fmt.Sprintf("a %s for any chip: it is compiled on the target, which nothing here can judge", f.Format), diag.QNNNoContext.Fix())
	}
	r.Fits = !r.Faults.Failed()
	return r
}

// enter makes a diagnostic of an axis that does not fit or is unknown.
func enter(list *diag.List, path string, p Part, a fit.Axis, accepted bool) {
	detail := fmt.Sprintf("%s: %s: the file %s, the target %s: %s", p.Name, a.Name, a.File, a.Target, a.Why)
	code := diag.TargetUnknown
	if a.Verdict == fit.Not {
		code = codeOf(a.Name)
	}
	if accepted {
		list.Warn(code, diag.Pos{File: path}, detail, "")
		return
	}
	list.Add(code, diag.Pos{File: path}, detail, a.Hint)
}

// codeOf is the code of an axis that does not fit.
func codeOf(axis string) diag.Code {
	switch axis {
	case fit.AxisArch, fit.AxisSoC, fit.AxisStamp:
		return diag.TargetChip
	case fit.AxisSDK, fit.AxisCore, fit.AxisBack, fit.AxisSystem:
		return diag.TargetSDK
	case fit.AxisSkel:
		return diag.TargetLibraries
	case fit.AxisDType:
		return diag.TargetDType
	case fit.AxisVTCM, fit.AxisMemory:
		return diag.TargetMemory
	case fit.AxisWrapper:
		return diag.WrapperDiffers
	case fit.AxisOperator:
		return diag.OperatorsLeft
	}
	return diag.TargetBackend
}

// around judges what the file around a context says.
func (f *File) around(p Part, t fit.Target) []fit.Axis {
	switch f.Format {
	case LiteRT:
		return []fit.Axis{f.stamp(t), operators(litertView(f.litert).Left)}
	case EPContext:
		a := fit.Axis{Name: fit.AxisWrapper, Verdict: fit.Fits, File: fmt.Sprintf("node %q", p.node.Name), Target: fmt.Sprintf("graph %q", p.node.Graph)}
		var all []string
		for _, d := range p.node.Compare(p.Context) {
			all = append(all, differs(d.What, d.Node, d.Context))
		}
		if all != nil {
			a.Verdict, a.Why, a.Hint = fit.Not, strings.Join(all, "; "), "make the model anew with mm qnn wrap"
		} else if p.Context.Unread != "" {
			a.Verdict, a.Why, a.Hint = fit.Unknown, p.Context.Unread, "a newer mm may read it"
		}
		return []fit.Axis{a, operators(f.onnxView().Left)}
	}
	return nil
}

// stamp compares the chip that the model says it is for.
func (f *File) stamp(t fit.Target) fit.Axis {
	a := fit.Axis{Name: fit.AxisStamp, Verdict: fit.Unknown, File: "none", Target: t.Name, Why: "the model does not say for which chip it is", Hint: "--accept stamp goes on without"}
	s := f.litert.Stamp
	if s == nil {
		return a
	}
	a.File = s.Manufacturer + " " + s.SoC
	a.Why, a.Hint = "the table has no such chip", "--socs FILE adds it; --accept stamp goes on without"
	arch, err := htp.ParseArch(s.SoC)
	if c, ok := t.Chips.Named(s.SoC); ok {
		arch, err = c.Arch, nil
		if t.Chip != nil && !strings.EqualFold(s.SoC, t.Chip.Name) && c.Model != t.Chip.Model && !(t.SameArch && arch == t.Arch) {
			a.Verdict, a.Why, a.Hint = fit.Not, "the model says that it is for another chip", "compile it for "+t.Name
			return a
		}
	}
	switch {
	case s.Manufacturer != "Qualcomm":
		a.Verdict, a.Why, a.Hint = fit.Not, "the model says that it is for another maker's chip", "compile it for "+t.Name
	case err != nil || t.Arch == 0:
	case arch != t.Arch:
		a.Verdict, a.Why, a.Hint = fit.Not, "the model says that it is for another chip", "compile it for "+t.Name
	default:
		a.Verdict, a.Why, a.Hint = fit.Fits, "", ""
	}
	return a
}

// operators judges what was not compiled: a context alone is not the model
// then.
func operators(left []Left) fit.Axis {
	a := fit.Axis{Name: fit.AxisOperator, Verdict: fit.Fits, File: "none left for the processor", Target: "all compiled"}
	if len(left) == 0 {
		return a
	}
	var names []string
	for _, l := range left {
		names = append(names, fmt.Sprintf("%s %d", l.Name, l.Count))
	}
	a.Verdict, a.File = fit.Not, strings.Join(names, ", ")
	a.Why, a.Hint = "operators are left for the processor, so that the contexts are not the whole model", "cut them off, or exchange them for operators that the NPU has"
	return a
}
