"""From trees to rules: reliable leaves, their selection (GS-MRM), and the evidence for the rules kept."""
