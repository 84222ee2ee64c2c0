package corpus

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// Limits of an expression: its length in bytes and its nodes.
const (
	maxExpression = 4096
	maxNodes      = 256
)

// functions are the functions that an expression may call. Each takes time
// linear in its argument and returns no more than it gets.
var functions = []string{"len", "lower", "upper", "trim", "trimPrefix", "trimSuffix", "hasPrefix", "hasSuffix", "indexOf", "abs", "min", "max", "int", "float", "round", "floor", "ceil", "type"}

// Filter is a compiled expression over the columns of a row. It has no loops,
// no variables and no functions that enlarge text, and its patterns are
// constants of RE2, so an evaluation takes time linear in the row.
type Filter struct {
	Columns []string // sorted
	program *vm.Program
}

// NewFilter compiles an expression.
func NewFilter(text string) (*Filter, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("expression of %d bytes, limit %d", len(text), maxExpression)
	}
	if depth := nesting(text); depth > maxNodes {
		return nil, fmt.Errorf("expression nested deeper than %d", maxNodes)
	}
	c := &checker{}
	opts := []expr.Option{expr.AllowUndefinedVariables(), expr.AsBool(), expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes), expr.Optimize(false)}
	for _, f := range functions {
		opts = append(opts, expr.EnableBuiltin(f))
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, oneLine(err)
	}
	ast.Walk(&tree.Node, c)
	if c.err != nil {
		return nil, c.err
	}
	program, err := expr.Compile(text, opts...)
	if err != nil {
		return nil, oneLine(err)
	}
	slices.Sort(c.columns)
	return &Filter{slices.Compact(c.columns), program}, nil
}

// oneLine returns the first line of an error; the others draw the expression.
func oneLine(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}

// nesting returns the maximum depth of brackets and of chained prefixes.
func nesting(text string) (deepest int) {
	depth, prefixes := 0, 0
	for _, c := range []byte(text) {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case '!', '-', '+', '?':
			prefixes++
		}
		deepest = max(deepest, depth+prefixes)
	}
	return deepest
}

// Keep reports whether the row passes.
func (f *Filter) Keep(row map[string]any) (bool, error) {
	v, err := expr.Run(f.program, row)
	if err != nil {
		return false, oneLine(err)
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("got %T, want true or false", v)
	}
	return b, nil
}

// checker refuses nodes that loop, keep state or enlarge values.
type checker struct {
	columns []string
	err     error
}

// Visit implements ast.Visitor.
func (c *checker) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if strings.HasPrefix(n.Value, "$") {
			c.refuse("%s is not a column", n.Value)
		}
		c.columns = append(c.columns, n.Value)
	case *ast.BinaryNode:
		c.binary(n)
	case *ast.CallNode:
		name, _ := n.Callee.(*ast.IdentifierNode)
		if name == nil || !slices.Contains(functions, name.Value) {
			c.refuse("call of %q: want one of %v", n.Callee.String(), functions)
		}
	case *ast.BuiltinNode:
		if !slices.Contains(functions, n.Name) {
			c.refuse("call of %q: want one of %v", n.Name, functions)
		}
	case *ast.PredicateNode, *ast.PointerNode:
		c.refuse("loops over items are not supported")
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		c.refuse("let and sequences are not supported")
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ConstantNode, *ast.UnaryNode, *ast.ChainNode,
		*ast.MemberNode, *ast.SliceNode, *ast.ConditionalNode, *ast.ArrayNode:
	default:
		c.refuse("%T is not supported", n)
	}
}

func (c *checker) binary(n *ast.BinaryNode) {
	switch n.Operator {
	case "..":
		c.refuse("ranges are not supported")
	case "+":
		c.refuse("+ is not supported: it enlarges text")
	case "**", "^":
		c.refuse("%s is not supported", n.Operator)
	case "matches":
		if _, ok := n.Right.(*ast.StringNode); !ok {
			c.refuse("the pattern of matches is not constant text")
		}
	}
}

func (c *checker) refuse(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}
