package workspace

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

// maxAgents is how many builds may be within each other below one: as deep as
// they are opened (runtimes/agent).
const maxAgents = 3

// agents checks the skills of a graph that are builds: neither they nor their
// own agents may contain the graph, nor nest too deep. Builds are taken from
// the home's store and verified; a missing or unreleased one is not checked,
// with a warning.
func (w *Workspace) agents(ctx context.Context, g *builds.Graph, resolved builds.Resolved) (diag.List, error) {
	var list diag.List
	for i, s := range g.Skills {
		m := resolved[s.Ref.Name]
		if m == nil || m.Runtime == nil || m.Runtime.Agent == "" {
			continue
		}
		pos := g.Pos(fmt.Sprintf("/skills/%d/ref", i))
		if err := w.within(ctx, m.Runtime.Agent, []string{g.Name}, pos, &list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// within follows one agent; above are the builds that it is within.
func (w *Workspace) within(ctx context.Context, ref string, above []string, pos diag.Pos, list *diag.List) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	chain := strings.Join(append(slices.Clone(above), ref), " → ")
	if len(above) > maxAgents {
		list.Add(diag.AgentWithin, pos, chain, "")
		return nil
	}
	name, inner := agentName(ref), map[string]*modules.Manifest{}
	var missing error
	if !w.hasStore() {
		missing = fmt.Errorf("the store is empty")
	} else if b, err := w.agent(ctx, ref); err != nil {
		missing = err
	} else {
		name, inner = b.Assembly.Name, b.Manifests
	}
	if slices.Contains(above, name) {
		list.Add(diag.AgentWithin, pos, chain, "")
		return nil
	}
	if missing != nil {
		list.Warn(diag.NotChecked, pos, fmt.Sprintf("the agent %s: %v", ref, missing), "assemble or pull it, then validate again")
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(inner)) {
		if m := inner[key]; m != nil && m.Runtime != nil && m.Runtime.Agent != "" {
			if err := w.within(ctx, m.Runtime.Agent, append(slices.Clone(above), name), pos, list); err != nil {
				return err
			}
		}
	}
	return nil
}

// agent opens a build of the home's store, without the network.
func (w *Workspace) agent(ctx context.Context, ref string) (*builds.Build, error) {
	at, err := w.findStored(ctx, ref)
	if err != nil {
		return nil, err
	}
	v, err := w.Admit(ctx, at, Claim{})
	if err != nil {
		return nil, err
	}
	return v.Build(ctx, "")
}

// Agent finds the build that a skill names and verifies it. It is one of the
// home's store.
func (w *Workspace) Agent(ctx context.Context, ref string) (*builds.Build, error) {
	if !w.hasStore() {
		return nil, fmt.Errorf("the store is empty: assemble or pull %s", ref)
	}
	return w.agent(ctx, ref)
}

// agentName is the name of a build as a reference spells it.
func agentName(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		ref = ref[i+1:]
	}
	ref, _, _ = strings.Cut(ref, ":")
	return ref
}
