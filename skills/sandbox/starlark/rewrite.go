package starlark

import (
	"go.starlark.net/syntax"

	"mm-abi.org/mm/skills/sandbox"
)

// hidden is the prefix of the functions that a rewritten program calls. A
// program cannot write it: it is not a letter of Starlark.
const hidden = "$"

// rewriter replaces code that allocates or takes long by calls of the meter.
type rewriter struct{ err error }

// rewrite changes a file in place.
func rewrite(f *syntax.File) error {
	r := &rewriter{}
	f.Stmts = r.stmts(f.Stmts)
	return r.err
}

func call(pos syntax.Position, name string, args ...syntax.Expr) *syntax.CallExpr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: pos, Name: hidden + name}, Lparen: pos, Args: args, Rparen: pos}
}

func text(pos syntax.Position, s string) *syntax.Literal {
	return &syntax.Literal{Token: syntax.STRING, TokenPos: pos, Raw: s, Value: s}
}

func number(pos syntax.Position, n int) *syntax.Literal {
	return &syntax.Literal{Token: syntax.INT, TokenPos: pos, Raw: "0", Value: int64(n)}
}

func start(n syntax.Node) syntax.Position { return syntax.Start(n) }

func (r *rewriter) stmts(list []syntax.Stmt) []syntax.Stmt {
	var out []syntax.Stmt
	for _, s := range list {
		switch s := s.(type) {
		case *syntax.DefStmt:
			s.Params = r.params(s.Params)
			enter := &syntax.ExprStmt{X: call(s.Def, "enter", rest(s.Params)...)}
			s.Body = append([]syntax.Stmt{enter}, r.stmts(s.Body)...)
			out = append(out, &syntax.ExprStmt{X: call(s.Def, "fn")})
		case *syntax.ExprStmt:
			s.X = r.expr(s.X)
		case *syntax.IfStmt:
			s.Cond, s.True, s.False = r.expr(s.Cond), r.stmts(s.True), r.stmts(s.False)
		case *syntax.ForStmt:
			s.Vars, s.X, s.Body = r.target(s.Vars), r.expr(s.X), r.stmts(s.Body)
		case *syntax.WhileStmt:
			s.Cond, s.Body = r.expr(s.Cond), r.stmts(s.Body)
		case *syntax.ReturnStmt:
			if s.Result != nil {
				s.Result = r.expr(s.Result)
			}
		case *syntax.AssignStmt:
			out = append(out, r.assign(s))
			continue
		case *syntax.LoadStmt:
			r.err = sandbox.Refuse("%v: load is not supported", s.Load)
		}
		out = append(out, s)
	}
	return out
}

// assign rewrites x = y; x op= y becomes a call with both sides.
func (r *rewriter) assign(s *syntax.AssignStmt) syntax.Stmt {
	s.RHS = r.expr(s.RHS)
	if s.Op == syntax.EQ {
		s.LHS = r.target(s.LHS)
		return s
	}
	op := number(s.OpPos, int(s.Op-syntax.PLUS_EQ+syntax.PLUS))
	switch lhs := unparen(s.LHS).(type) {
	case *syntax.Ident:
		read := &syntax.Ident{NamePos: lhs.NamePos, Name: lhs.Name}
		return &syntax.AssignStmt{OpPos: s.OpPos, Op: syntax.EQ, LHS: lhs, RHS: call(s.OpPos, "aug", op, read, s.RHS)}
	case *syntax.IndexExpr:
		return &syntax.ExprStmt{X: call(s.OpPos, "augindex", op, r.expr(lhs.X), r.expr(lhs.Y), s.RHS)}
	}
	r.err = sandbox.Refuse("%v: augmented assignment needs a name or x[i]", s.OpPos)
	return s
}

func unparen(e syntax.Expr) syntax.Expr {
	for {
		p, ok := e.(*syntax.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

// target rewrites the target of an assignment.
func (r *rewriter) target(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.IndexExpr:
		e.X, e.Y = r.expr(e.X), call(start(e), "store", r.expr(e.Y))
	case *syntax.TupleExpr:
		for i := range e.List {
			e.List[i] = r.target(e.List[i])
		}
	case *syntax.ListExpr:
		for i := range e.List {
			e.List[i] = r.target(e.List[i])
		}
	case *syntax.ParenExpr:
		e.X = r.target(e.X)
	case *syntax.DotExpr:
		r.err = sandbox.Refuse("%v: fields cannot be assigned", start(e))
	}
	return e
}

// params rewrites the defaults of parameters.
func (r *rewriter) params(list []syntax.Expr) []syntax.Expr {
	for _, p := range list {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			b.Y = r.expr(b.Y)
		}
	}
	return list
}

// rest returns the names of the parameters *a and **b: their values are allocated in
// each call.
func rest(params []syntax.Expr) []syntax.Expr {
	var names []syntax.Expr
	for _, p := range params {
		if u, ok := p.(*syntax.UnaryExpr); ok && u.X != nil {
			id := u.X.(*syntax.Ident)
			names = append(names, &syntax.Ident{NamePos: id.NamePos, Name: id.Name})
		}
	}
	return names
}

func (r *rewriter) each(list []syntax.Expr) {
	for i := range list {
		list[i] = r.expr(list[i])
	}
}

func (r *rewriter) expr(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		e.X = r.expr(e.X)
	case *syntax.BinaryExpr:
		e.X, e.Y = r.expr(e.X), r.expr(e.Y)
		if e.Op != syntax.AND && e.Op != syntax.OR {
			return call(e.OpPos, "binary", number(e.OpPos, int(e.Op)), e.X, e.Y)
		}
	case *syntax.UnaryExpr:
		e.X = r.expr(e.X)
		if e.Op != syntax.NOT {
			return call(e.OpPos, "unary", number(e.OpPos, int(e.Op)), e.X)
		}
	case *syntax.CallExpr:
		if dot, ok := e.Fn.(*syntax.DotExpr); ok { // the method is not kept
			e.Fn = call(dot.Dot, "method", r.expr(dot.X), text(dot.NamePos, dot.Name.Name))
		} else {
			e.Fn = r.expr(e.Fn)
		}
		r.args(e.Args)
	case *syntax.DotExpr:
		return call(e.Dot, "attr", r.expr(e.X), text(e.NamePos, e.Name.Name))
	case *syntax.IndexExpr:
		e.X, e.Y = r.expr(e.X), call(start(e), "key", r.expr(e.Y))
	case *syntax.SliceExpr:
		stepped := 0
		for _, part := range []*syntax.Expr{&e.Lo, &e.Hi, &e.Step} {
			if *part != nil {
				*part = r.expr(*part)
			}
		}
		if e.Step != nil {
			stepped = 1
		}
		e.X = call(start(e), "slice", number(e.Lbrack, stepped), r.expr(e.X))
	case *syntax.ListExpr:
		r.each(e.List)
		return call(e.Lbrack, "made", e)
	case *syntax.TupleExpr:
		r.each(e.List)
		return call(start(e), "made", e)
	case *syntax.DictExpr:
		for _, item := range e.List {
			entry := item.(*syntax.DictEntry)
			entry.Key, entry.Value = call(entry.Colon, "store", r.expr(entry.Key)), r.expr(entry.Value)
		}
		return call(e.Lbrace, "made", e)
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = r.expr(e.Cond), r.expr(e.True), r.expr(e.False)
	case *syntax.LambdaExpr:
		e.Params = r.params(e.Params)
		e.Body = &syntax.BinaryExpr{X: call(e.Lambda, "enter", rest(e.Params)...), OpPos: e.Lambda, Op: syntax.OR, Y: r.expr(e.Body)}
		return call(e.Lambda, "made", e)
	case *syntax.Comprehension:
		r.comprehension(e)
	}
	return e
}

func (r *rewriter) comprehension(e *syntax.Comprehension) {
	for _, c := range e.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			c.Vars, c.X = r.target(c.Vars), r.expr(c.X)
		case *syntax.IfClause:
			c.Cond = r.expr(c.Cond)
		}
	}
	if entry, ok := e.Body.(*syntax.DictEntry); ok {
		entry.Key, entry.Value = call(entry.Colon, "store", r.expr(entry.Key)), r.expr(entry.Value)
		return
	}
	e.Body = call(e.Lbrack, "item", r.expr(e.Body))
}

// args rewrites the arguments of a call: x, name=x, *x, **x.
func (r *rewriter) args(list []syntax.Expr) {
	for i, a := range list {
		switch a := a.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ {
				a.Y = r.expr(a.Y)
				continue
			}
		case *syntax.UnaryExpr:
			if a.Op == syntax.STAR || a.Op == syntax.STARSTAR {
				a.X = call(a.OpPos, "star", r.expr(a.X))
				continue
			}
		}
		list[i] = r.expr(a)
	}
}
