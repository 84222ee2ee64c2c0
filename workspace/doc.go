// Package workspace resolves a user's arguments to bytes that may be used, with
// the user's home (store, keys, trust file) and the settings of the current
// folder.
//
// The flow is
//
//	Open → Find (what does the argument mean?) → Admit (may it be used?) → Verified.Build
//
// [Workspace.Find] parses an argument: a name in the store, an OCI layout or a
// target's folder inside one, a registry's repository. Only [Workspace.Admit]
// returns a [Verified]: it compares the artifact's own name and version with the
// reference, checks the signatures by the trust policy, hashes every byte and
// checks that the name still has the same meaning. Runs, builds, pulls and pushes
// all use it; [Claim] selects how strictly. [Workspace.Judge] is the part that
// needs only the manifest, for artifacts whose bytes are elsewhere.
//
// [Workspace.Runnable] does the same for running. It also accepts the user's own
// files: a GGUF file, a core module's folder, a folder of transformers, a
// checkpoint of mm train. These are unverified, which is reported, audited, and
// refused under strict trust.
//
// Settings have one anchor, the folder given to [Open]: modules, hosts and the
// project's trust file come from the same mm.yaml. A project's trust file can
// require more than the user's, never less, unless the user has accepted its
// exact content ([Workspace.Accept]).
//
// Nothing here prints: messages go to Options.Say.
package workspace
