package skills_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
)

// allowed opens the skill with options and returns the permissions that its
// program got, and the messages.
func allowed(t *testing.T, b *builds.Build, opt skills.Options) (modules.Allow, string) {
	t.Helper()
	x, messages := &spy{}, ""
	opt.Executors = map[string]sandbox.Executor{"starlark": x}
	opt.Warn = func(text string) { messages += text }
	s, err := skills.Open(t.Context(), b, opt)
	if err != nil {
		t.Fatal(err)
	}
	if info := s.List()[0]; info.Allow.String() != x.got.Allow.String() {
		t.Errorf("the set lists %s, the program has %s", info.Allow, x.got.Allow)
	}
	return x.got.Allow, messages
}

// A grant holds for its skill and its program, and a denied permission is
// reported with the flag that grants it.
func TestGrantFor(t *testing.T) {
	b := build(t, nil, manifest(t, "s", "{name: a, type: str}", "{name: b, type: str}", "starlark: add.star, allow: {env: [A, B], clock: true}"))
	x := &spy{}
	set, err := skills.Open(t.Context(), b, skills.Options{Executors: map[string]sandbox.Executor{"starlark": x}})
	if err != nil {
		t.Fatal(err)
	}
	program := set.List()[0].Program
	if !strings.HasPrefix(program, "sha256:") || len(program) != 71 {
		t.Fatalf("program %q", program)
	}
	env := modules.Allow{Env: []string{"A", "C"}}
	for name, c := range map[string]struct {
		grant modules.Grant
		want  string
	}{
		"by name":         {modules.Grant{Skill: "s", Allow: env}, "env:A"},
		"by program":      {modules.Grant{Skill: "s", Program: program, Allow: env}, "env:A"},
		"another program": {modules.Grant{Skill: "s", Program: "sha256:" + strings.Repeat("0", 64), Allow: env}, "none"},
		"another skill":   {modules.Grant{Skill: "r", Allow: env}, "none"},
		"of an agent":     {modules.Grant{Skill: "x/s", Allow: env}, "none"},
		"the clock":       {modules.Grant{Skill: "s", Allow: modules.Allow{Clock: true, Random: true}}, "clock"},
	} {
		got, messages := allowed(t, b, skills.Options{Grants: []modules.Grant{c.grant}})
		if got.String() != c.want {
			t.Errorf("%s: allowed %s, want %s", name, got, c.want)
		}
		if !strings.Contains(messages, "skill s asks for") || !strings.Contains(messages, "--allow s=") || c.want == "env:A" && !strings.HasSuffix(messages, "(--allow s=clock,env:B)") {
			t.Errorf("%s: messages %q", name, messages)
		}
	}
	all := modules.Grant{Skill: "s", Allow: modules.Allow{Env: []string{"A", "B"}, Clock: true}}
	if _, messages := allowed(t, b, skills.Options{Grants: []modules.Grant{all}}); messages != "" {
		t.Errorf("all granted, messages %q", messages)
	}
	if inner := (skills.Options{Grants: []modules.Grant{all, {Skill: "x/s", Allow: env}, {Skill: "s", Program: program, Allow: env}}}).Inner("x"); len(inner.Grants) != 2 || inner.Grants[0].Skill != "s" {
		t.Errorf("of an agent: %+v", inner.Grants)
	}
	if pinned := (skills.Options{Grants: []modules.Grant{all, {Skill: "r", Allow: env}}}).Pinned(set); len(pinned.Grants) != 1 || pinned.Grants[0].Program != program {
		t.Errorf("pinned: %+v", pinned.Grants)
	}
	for grant, want := range map[string]string{"s=env:A": "", "s=clock": "", "r=env:A": "has no such skill; it has s", "s=env:C": "not what it asks for; it asks for clock env:A env:B", "s/r=env:A": ""} {
		g, err := modules.ParseGrant(grant)
		if err != nil {
			t.Fatal(err)
		}
		if err := skills.CheckGrants(b.Assembly, []modules.Grant{g}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", grant, err, want)
		}
	}
}
