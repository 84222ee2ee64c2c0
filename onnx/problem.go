package onnx

import "fmt"

// Rule names the rule that a problem violates.
type Rule string

// The rules, in the order in which a model is checked.
const (
	RuleFormat    Rule = "format"    // fields that onnx.proto does not define
	RuleIR        Rule = "ir"        // the version of the format
	RuleOpset     Rule = "opset"     // the versions of operators
	RuleDomain    Rule = "domain"    // operators of unknown origin
	RuleNode      Rule = "node"      // a node without an operator, a duplicate attribute
	RuleContext   Rule = "context"   // compiled code for a device, options of a session
	RuleTraining  Rule = "training"  // training graphs
	RuleKey       Rule = "key"       // keys of external data
	RuleLocation  Rule = "location"  // paths of external data
	RuleFile      Rule = "file"      // files of external data that are undeclared or missing
	RuleLink      Rule = "link"      // files of external data with several names
	RuleRange     Rule = "range"     // offset and length of external data
	RuleOverlap   Rule = "overlap"   // partially overlapping external data
	RuleDType     Rule = "dtype"     // element types
	RuleDims      Rule = "dims"      // negative dimensions, products that overflow
	RuleData      Rule = "data"      // elements that do not match type and dimensions
	RuleName      Rule = "name"      // one producer for each name
	RuleOrder     Rule = "order"     // producers come before their uses: no cycles
	RuleDangling  Rule = "dangling"  // inputs that nothing produces
	RuleOutput    Rule = "output"    // outputs that nothing produces
	RuleUnused    Rule = "unused"    // initializers that nothing uses
	RuleRecursion Rule = "recursion" // functions that call themselves
	RuleRandom    Rule = "random"    // operators whose results differ from run to run
	RuleControl   Rule = "control"   // If, Loop and Scan on targets without control flow
	RuleSize      Rule = "size"      // bytes of the model and its external data
)

// Problem is a violation of a rule by a model.
type Problem struct {
	Rule  Rule
	Where string // such as graph "g"/node[3] "conv"/attribute "value"
	Text  string
	// Warning marks problems that runtimes accept.
	Warning bool
}

// String formats rule, place and text in one line.
func (p Problem) String() string {
	if p.Where == "" {
		return fmt.Sprintf("%s: %s", p.Rule, p.Text)
	}
	return fmt.Sprintf("%s: %s: %s", p.Rule, p.Where, p.Text)
}

// The maximum numbers of faults and of warnings that Check lists.
const maxProblems, maxWarnings = 200, 100

func (c *checker) fail(rule Rule, at *place, format string, args ...any) {
	c.add(Problem{Rule: rule, Text: fmt.Sprintf(format, args...)}, at)
}

func (c *checker) warn(rule Rule, at *place, format string, args ...any) {
	c.add(Problem{Rule: rule, Text: fmt.Sprintf(format, args...), Warning: true}, at)
}

// add lists a problem. Warnings are counted separately, so that they never
// displace a fault.
func (c *checker) add(p Problem, at *place) {
	count, most := &c.faults, maxProblems
	if p.Warning {
		count, most = &c.warnings, maxWarnings
	}
	switch *count++; {
	case *count > most:
	case *count == most:
		c.found = append(c.found, Problem{Rule: p.Rule, Text: "and more: too many problems to list", Warning: p.Warning})
	default:
		if at != nil {
			p.Where = at.String()
		}
		c.found = append(c.found, p)
	}
}
