// Package wheels gives integration tests the published SGLang releases that
// patches and deploy are tested against.
//
// A wheel is downloaded by pip without its dependencies, pinned by version and
// SHA-256 in wheels.txt, and kept in a cache folder; nothing of it is ever
// committed. The cache is $SPECRUN_CACHE/wheels or, without that variable,
// .cache/wheels at the module's root. Wheels of one CPython version and
// platform serve on every machine: the tests read and patch their Python files
// and never import their compiled parts.
//
// Only tests import this package. A missing prerequisite (python3 with pip, the
// package index on the first use) fails the test; it never skips it.
package wheels
