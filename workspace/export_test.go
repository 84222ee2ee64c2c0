package workspace

// OnAdmitted lets a test act between verification and use.
func (w *Workspace) OnAdmitted(fn func()) { w.admitted = fn }
