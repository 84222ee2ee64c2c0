package inspect

import (
	"errors"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx"
)

// rules maps the rules of package onnx to codes.
var rules = map[onnx.Rule]diag.Code{
	onnx.RuleFormat: diag.ModelFields, onnx.RuleIR: diag.ModelIR, onnx.RuleOpset: diag.ModelOpset, onnx.RuleDomain: diag.ModelDomain,
	onnx.RuleNode: diag.ModelNode, onnx.RuleContext: diag.ModelContext, onnx.RuleTraining: diag.ModelTraining,
	onnx.RuleKey: diag.ExternalKey, onnx.RuleLocation: diag.ExternalPath, onnx.RuleFile: diag.ExternalFile, onnx.RuleLink: diag.ExternalLink,
	onnx.RuleRange: diag.ExternalRange, onnx.RuleOverlap: diag.ExternalOverlap,
	onnx.RuleDType: diag.TensorType, onnx.RuleDims: diag.TensorDims, onnx.RuleData: diag.TensorData,
	onnx.RuleName: diag.GraphName, onnx.RuleOrder: diag.GraphOrder, onnx.RuleDangling: diag.GraphDangling, onnx.RuleOutput: diag.GraphOutput,
	onnx.RuleUnused: diag.GraphUnused, onnx.RuleRecursion: diag.GraphRecursion, onnx.RuleRandom: diag.GraphRandom, onnx.RuleControl: diag.GraphControl,
	onnx.RuleSize: diag.ModelSize,
}

// AddUnread adds an error of onnx.Open or onnx.Parse to list; before names the
// file.
func AddUnread(list *diag.List, pos diag.Pos, before string, err error) {
	code := diag.ModelMalformed
	switch {
	case errors.Is(err, onnx.ErrPointer):
		code = diag.ModelPointer
	case errors.Is(err, onnx.ErrLimit):
		code = diag.ModelLimits
	}
	list.Add(code, pos, before+err.Error(), code.Fix())
}

// AddProblems adds the problems found by onnx.Model.Check to list.
func AddProblems(list *diag.List, pos diag.Pos, before string, problems []onnx.Problem) {
	for _, p := range problems {
		code, detail := rules[p.Rule], before+p.Text
		if p.Where != "" {
			detail = before + p.Where + ": " + p.Text
		}
		if p.Warning {
			list.Warn(code, pos, detail, code.Fix())
		} else {
			list.Add(code, pos, detail, code.Fix())
		}
	}
}
