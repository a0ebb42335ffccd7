<?xml version="1.0"?>
<CPLEXSolution version="1.2">
 <header objectiveValue="16000" solutionStatusString="optimal"/>
 <variables>
  <variable name="R_0_0" index="0" value="1"/>
  <variable name="S_1_0" index="1" value="1"/>
  <variable name="R_1_0" index="2" value="1"/>
  <variable name="R_1_1" index="3" value="1"/>
  <variable name="S_2_0" index="4" value="1"/>
  <variable name="S_2_1" index="5" value="1"/>
  <variable name="R_2_0" index="6" value="1"/>
  <variable name="R_2_1" index="7" value="1"/>
  <variable name="R_2_2" index="8" value="1"/>
  <variable name="S_3_0" index="9" value="1"/>
  <variable name="S_3_1" index="10" value="1"/>
  <variable name="S_3_2" index="11" value="1"/>
  <variable name="R_3_0" index="12" value="1"/>
  <variable name="R_3_1" index="13" value="1"/>
  <variable name="R_3_2" index="14" value="1"/>
  <variable name="R_3_3" index="15" value="1"/>
  <variable name="FREE_0_0_0" index="16" value="0"/>
  <variable name="U_0_0" index="17" value="100"/>
  <variable name="FREE_1_0_0" index="18" value="0"/>
  <variable name="FREE_1_0_1" index="19" value="0"/>
  <variable name="FREE_1_1_1" index="20" value="0"/>
  <variable name="U_1_0" index="21" value="100"/>
  <variable name="U_1_1" index="22" value="100"/>
  <variable name="FREE_2_0_0" index="23" value="0"/>
  <variable name="FREE_2_0_1" index="24" value="0"/>
  <variable name="FREE_2_0_2" index="25" value="0"/>
  <variable name="FREE_2_1_1" index="26" value="0"/>
  <variable name="FREE_2_2_2" index="27" value="0"/>
  <variable name="U_2_0" index="28" value="100"/>
  <variable name="U_2_1" index="29" value="100"/>
  <variable name="U_2_2" index="30" value="100"/>
  <variable name="FREE_3_0_0" index="31" value="0"/>
  <variable name="FREE_3_0_1" index="32" value="0"/>
  <variable name="FREE_3_1_1" index="33" value="0"/>
  <variable name="FREE_3_2_2" index="34" value="0"/>
  <variable name="FREE_3_2_3" index="35" value="0"/>
  <variable name="FREE_3_3_3" index="36" value="0"/>
  <variable name="U_3_0" index="37" value="100"/>
  <variable name="U_3_1" index="38" value="100"/>
  <variable name="U_3_2" index="39" value="100"/>
  <variable name="U_3_3" index="40" value="100"/>
 </variables>
</CPLEXSolution>
