// Package workspace is where mm works: the user's home with its store, keys
// and trust file, the settings of the folder at hand, and the one way from a
// reference to bytes that may be used.
//
// The flow is
//
//	Open → Find (what does the argument mean?) → Admit (may it be used?) → Verified.Build
//
// [Workspace.Find] reads an argument: a name in the store, an OCI layout or a
// target's folder inside one, a registry's repository. [Workspace.Admit] is the
// only maker of [Verified]: it compares the artifact's own name and version
// with those it is called by, asks the trust policy who released it, hashes
// every byte and makes sure that the name still means the same. What runs,
// what a graph is built from, what is pulled and what is pushed goes that way;
// [Claim] says how far. [Workspace.Judge] is the part of it that a manifest
// alone can answer, for artifacts whose bytes are elsewhere.
//
// [Workspace.Runnable] is that way for whoever runs something. It also takes the
// user's own: a GGUF file, a core module's folder, a folder of transformers, a
// checkpoint of mm train. For these nobody vouches, which is said, logged, and
// refused where the trust is strict.
//
// Settings have one anchor, the folder given to [Open]: modules, hosts and the
// project's trust file come from the same mm.yaml. A project's trust file can
// ask for more than the user's own does, never for less, unless the user has
// accepted its exact content ([Workspace.Accept]).
//
// Nothing here prints: what people should hear goes to Options.Say.
package workspace
