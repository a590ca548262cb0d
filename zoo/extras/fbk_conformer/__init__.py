"""FBK's Conformers, the models of EDAtt, AlignAtt and StreamAtt."""
