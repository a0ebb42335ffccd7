"""Other ways to run an operator, as in MONeT's Appendix D, and Gist's encodings.

`activations`, `batch_norm`, `pooling` and `gist` hold the reference implementations, plain functions on
tensors, tested to give the framework's gradients. `attach` offers them to the operators of an instance;
`rewrite` splits operators of the graph before it is traced. The functions know nothing of instances.
"""
