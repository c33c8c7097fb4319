// Package origin turns what starts a server today into an experiment file: a
// process of a host, a command line, or a shell script that ends in one. It is
// pure: it reads no file, asks no host and runs nothing.
//
//		text or process -> [Command] -> [Draft] -> YAML with comments
//
//	  - [Script] reads a shell text as far as it can be known without running it;
//	    what cannot is a [*ScriptError] with its line.
//	  - [NewDraft] tells prefix, interpreter, engine and flags apart, lifts what a
//	    sweep would vary into params, and leaves secrets out: their names stay, as
//	    references, their values go nowhere.
//	  - [Draft.YAML] writes the file, [Draft.Check] reads it back and compares the
//	    command that it plans with the one that it comes from.
package origin
